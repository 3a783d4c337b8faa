-- Settle what this transaction holds and was delivered at the first try. $1 ids.
UPDATE {schema}.outbox_event
SET status = 'delivered', next_attempt_at = NULL, delivered_at = clock.now, updated_at = clock.now
FROM (SELECT clock_timestamp() AS now) AS clock
WHERE id = ANY ($1)
