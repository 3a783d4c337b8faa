-- Unpark, shared: events that wait for $1, and for $3, too, are due again, at most $2.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now), waiting AS MATERIALIZED (
    SELECT id FROM {schema}.outbox_event AS event
    WHERE parked_on = $1 AND status = 'pending'
      AND (SELECT true FROM {schema}.outbox_delivery
           WHERE event_id = event.id AND destination = $3 AND status = 'pending')
    ORDER BY next_attempt_at, seq
    LIMIT $2
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {schema}.outbox_event AS event
SET parked_on = NULL, next_attempt_at = clock.now, updated_at = clock.now
FROM waiting, clock
WHERE event.id = waiting.id
