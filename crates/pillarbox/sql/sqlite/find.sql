-- Find: events with exactly this id (?2) or one of these keys (?1, a JSON array), each by an index. The index of keys begins with
-- the event type. The existing types, at most a thousand, are found by skipping from one to the next.
WITH RECURSIVE types (event_type) AS (
    SELECT min(event_type) FROM outbox_event
    UNION ALL
    SELECT (SELECT min(event.event_type) FROM outbox_event AS event WHERE event.event_type > types.event_type)
    FROM types WHERE event_type IS NOT NULL
    LIMIT 1000
)
SELECT id FROM outbox_event WHERE id = ?2
UNION
SELECT event.id FROM types CROSS JOIN json_each(?1) AS given CROSS JOIN outbox_event AS event
WHERE event.event_type = types.event_type AND event.idempotency_key = given.value
