-- Settle: parks events that this transaction holds and that were never changed before. $1 ids, $2 parked on, $3 error.
UPDATE {schema}.outbox_event
SET parked_on = $2, error_message = $3, next_attempt_at = clock.now, updated_at = clock.now
FROM (SELECT clock_timestamp() AS now) AS clock
WHERE id = ANY ($1)
