-- Settle: writes the deliveries of fan-outs that did not succeed at once. Delays count from the time at which the event was
-- settled, so that a delivery is due when its event is.
-- ?1 a JSON array of [event id, destination, status, attempts, seconds until due, error, parked].
INSERT INTO outbox_delivery (event_id, destination, status, attempts, next_attempt_at, delivered_at, error, parked)
SELECT told.event_id, told.destination, told.status, told.attempts, told.next_attempt_at, told.delivered_at, told.error, told.parked
FROM (
    SELECT event.id AS event_id, given.destination, given.status, given.attempts,
           CASE given.status WHEN 'pending'
               THEN event.updated_at + INTERVAL least(given.after, 3e9) * 1e6 MICROSECOND END AS next_attempt_at,
           CASE given.status WHEN 'delivered' THEN event.updated_at END AS delivered_at, given.error, given.parked
    FROM json_table(?1, '$[*]' COLUMNS (
        event_id CHAR(32) CHARACTER SET utf8mb4 PATH '$[0]', destination VARCHAR(255) CHARACTER SET utf8mb4 PATH '$[1]',
        status VARCHAR(20) CHARACTER SET utf8mb4 PATH '$[2]', attempts INTEGER PATH '$[3]', after DOUBLE PATH '$[4]',
        error TEXT CHARACTER SET utf8mb4 PATH '$[5]', parked BOOLEAN PATH '$[6]')) AS given
    STRAIGHT_JOIN outbox_event AS event FORCE INDEX (outbox_event_id) ON event.id = unhex(given.event_id)
) AS told
ON DUPLICATE KEY UPDATE
    status = told.status, attempts = told.attempts, next_attempt_at = told.next_attempt_at,
    delivered_at = coalesce(outbox_delivery.delivered_at, told.delivered_at), error = told.error, parked = told.parked
