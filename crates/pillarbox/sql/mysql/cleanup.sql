-- Cleanup, second part: deletes events. ?1 a JSON array of ids.
DELETE event
FROM json_table(?1, '$[*]' COLUMNS (id CHAR(32) CHARACTER SET utf8mb4 PATH '$')) AS asked
STRAIGHT_JOIN outbox_event AS event FORCE INDEX (outbox_event_id) ON event.id = unhex(asked.id)
