-- Replay: these events, if they exist and, with ?2, have not changed since then. ?1 a JSON array of ids.
SELECT event.id, status, idempotency_key, event_type, aggregate_type FROM (SELECT DISTINCT id FROM json_table(?1, '$[*]' COLUMNS (id CHAR(32) CHARACTER SET utf8mb4 PATH '$')) AS given) AS asked
STRAIGHT_JOIN outbox_event AS event FORCE INDEX (outbox_event_id) ON event.id = unhex(asked.id)
WHERE (?2 IS NULL OR updated_at < ?2)
