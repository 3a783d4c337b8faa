-- Fail: locks these events and returns the result for each one. Events that are being sent or were delivered stay, and with ?2
-- events that have changed since then, too. ?1 a JSON array of ids.
SELECT event.id,
       CASE WHEN status = 'delivered' THEN 'delivered'
            WHEN status = 'failed' THEN 'already'
            WHEN parked_on IS NULL AND claimed_by IS NOT NULL AND next_attempt_at > utc_timestamp(6) THEN 'being_sent'
            WHEN ?2 IS NOT NULL AND updated_at >= ?2 THEN 'being_sent'
            ELSE 'failed' END AS answer
FROM (SELECT DISTINCT id FROM json_table(?1, '$[*]' COLUMNS (id CHAR(32) CHARACTER SET utf8mb4 PATH '$')) AS given) AS asked
STRAIGHT_JOIN outbox_event AS event FORCE INDEX (outbox_event_id) ON event.id = unhex(asked.id)
FOR UPDATE
