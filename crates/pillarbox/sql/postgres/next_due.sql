-- How many seconds until the next event is due: a retry, a delayed event, or a lease that runs out.
SELECT extract(epoch FROM next_attempt_at - clock_timestamp())::float8
FROM {schema}.outbox_event
WHERE status = 'pending' AND parked_on IS NULL
ORDER BY next_attempt_at
LIMIT 1
