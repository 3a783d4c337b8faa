-- Emit: the events of these ids, which is what emit.sql has written. The value is the JSON array of emit.sql.
SELECT event.id, event.seq, event.event_type, event.idempotency_key, event.status, event.created_at
FROM json_table(?, '$[*]' COLUMNS (id CHAR(32) CHARACTER SET utf8mb4 PATH '$[0]')) AS given
STRAIGHT_JOIN outbox_event AS event FORCE INDEX (outbox_event_id) ON event.id = unhex(given.id)
