-- Returns the seconds until the next event is due: a retry, a delayed event, or an expired lease. $1 and $2 the place after which
-- to begin.
SELECT extract(epoch FROM next_attempt_at)::float8 - extract(epoch FROM clock_timestamp())::float8
FROM {schema}.outbox_event
WHERE status = 'pending' AND parked_on IS NULL AND (next_attempt_at, seq) > ($1, $2)
ORDER BY next_attempt_at, seq
LIMIT 1
