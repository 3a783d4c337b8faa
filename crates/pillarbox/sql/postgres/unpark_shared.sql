-- Unpark, shared: makes at most $2 events due with one delivery parked on $1 while another waits for something else.
-- Events that a relay holds now are left to the next call.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now), parked AS MATERIALIZED (
    -- More than the limit, because relays may hold the first ones. The oldest first, in the order of the index.
    SELECT event_id FROM {schema}.outbox_delivery WHERE destination = $1 AND parked ORDER BY event_id LIMIT $2 + 1000
), waiting AS MATERIALIZED (
    -- CASE, so that only the index of the ids can be used.
    SELECT event.id
    FROM parked CROSS JOIN LATERAL (
        SELECT id FROM {schema}.outbox_event
        WHERE id = parked.event_id
          AND CASE WHEN status = 'pending' AND parked_on IS DISTINCT FROM $1
                   THEN claimed_by IS NULL OR next_attempt_at <= (SELECT now FROM clock) END
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS event
    LIMIT $2
), deliveries AS (
    UPDATE {schema}.outbox_delivery AS delivery
    SET parked = false, next_attempt_at = clock.now
    FROM waiting, clock
    WHERE delivery.event_id = waiting.id AND delivery.destination = $1
)
UPDATE {schema}.outbox_event AS event
SET parked_on = NULL, next_attempt_at = clock.now, updated_at = clock.now
FROM waiting, clock
WHERE event.id = waiting.id
