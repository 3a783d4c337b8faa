-- Unpark: makes these events due if they are parked on $1. $2 ids. They share one time, so that they are claimed in the order of seq.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now), waiting AS MATERIALIZED (
    SELECT id FROM {schema}.outbox_event
    WHERE id = ANY ($2) AND parked_on = $1 AND status = 'pending'
    FOR NO KEY UPDATE SKIP LOCKED
), deliveries AS (
    UPDATE {schema}.outbox_delivery AS delivery
    SET parked = false, next_attempt_at = clock.now
    FROM waiting, clock
    WHERE delivery.event_id = waiting.id AND delivery.destination = $1 AND delivery.parked
)
UPDATE {schema}.outbox_event AS event
SET parked_on = NULL, next_attempt_at = clock.now, updated_at = clock.now
FROM waiting, clock
WHERE event.id = waiting.id
