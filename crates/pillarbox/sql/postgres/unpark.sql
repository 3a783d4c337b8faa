-- Unpark: makes at most $2 events parked on $1 due, the longest parked first; with $3 and $4 only events of that kind.
-- They share one time, so that they are claimed in the order of seq.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now), waiting AS MATERIALIZED (
    SELECT id FROM {schema}.outbox_event
    WHERE parked_on = $1 AND status = 'pending'
      AND ($3::text IS NULL OR (event_type = $3 AND aggregate_type = $4))
    ORDER BY next_attempt_at, seq
    LIMIT $2
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
