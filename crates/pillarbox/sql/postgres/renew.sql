-- Renew: extends leases that still hold their events. $1 ids, $2 tokens, $3 seconds.
UPDATE {schema}.outbox_event AS event
SET next_attempt_at = clock_timestamp() + $3 * interval '1 second', updated_at = clock_timestamp()
FROM unnest($1::uuid[], $2::uuid[]) AS held (id, token)
WHERE event.id = held.id AND event.claimed_by = held.token AND event.status = 'pending'
RETURNING event.id, held.token
