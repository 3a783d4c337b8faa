-- Settle: events that this transaction holds and that were delivered at the first attempt. $1 ids.
UPDATE {schema}.outbox_event
SET status = 'delivered', next_attempt_at = NULL, delivered_at = clock.now, updated_at = clock.now
FROM (SELECT clock_timestamp() AS now) AS clock
WHERE id = ANY ($1)
