-- Deletes the failed attempts of deleted events. ?1 a JSON array of ids.
DELETE attempt
FROM json_table(?1, '$[*]' COLUMNS (id CHAR(32) CHARACTER SET utf8mb4 PATH '$')) AS asked
STRAIGHT_JOIN outbox_attempt AS attempt FORCE INDEX (PRIMARY) ON attempt.event_id = unhex(asked.id)
