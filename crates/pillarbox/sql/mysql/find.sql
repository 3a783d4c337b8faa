-- Find: events with exactly this id (?2) or one of these keys (?1, a JSON array), each by an index. The index of keys begins with
-- the event type. The existing types, at most a thousand, are found by skipping from one to the next.
SELECT id FROM outbox_event WHERE id = ?2
UNION
SELECT event.id
FROM (SELECT DISTINCT event_type FROM outbox_event LIMIT 1000) AS types
STRAIGHT_JOIN json_table(?1, '$[*]' COLUMNS (text VARCHAR(255) CHARACTER SET utf8mb4 PATH '$')) AS given
STRAIGHT_JOIN outbox_event AS event FORCE INDEX (outbox_event_key)
WHERE event.event_type = types.event_type AND event.idempotency_key = given.text
