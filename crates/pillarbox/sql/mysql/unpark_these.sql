-- Unpark, first part: locks these events if they are parked on ?1. ?2 a JSON array of ids.
SELECT event.id
FROM json_table(?2, '$[*]' COLUMNS (id CHAR(32) CHARACTER SET utf8mb4 PATH '$')) AS asked
STRAIGHT_JOIN outbox_event AS event FORCE INDEX (outbox_event_id) ON event.id = unhex(asked.id)
WHERE event.parked_on = ?1 AND event.status = 'pending'
FOR UPDATE SKIP LOCKED
