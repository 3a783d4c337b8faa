-- Find: events with exactly this id (?2), this key (?1), or this aggregate id (?1), each by an index; at most ?3 for
-- aggregates. The index of keys begins with the event type, and the index of aggregates with the aggregate type. The existing
-- types, at most a thousand, are found by skipping from one to the next. Delivered events of aggregates are in no index.
WITH RECURSIVE types (event_type) AS (
    SELECT min(event_type) FROM outbox_event
    UNION ALL
    SELECT (SELECT min(event.event_type) FROM outbox_event AS event WHERE event.event_type > types.event_type)
    FROM types WHERE event_type IS NOT NULL
    LIMIT 1000
), kinds (aggregate_type) AS (
    SELECT min(aggregate_type) FROM outbox_event WHERE status <> 'delivered'
    UNION ALL
    SELECT (SELECT min(event.aggregate_type) FROM outbox_event AS event
            WHERE event.status <> 'delivered' AND event.aggregate_type > kinds.aggregate_type)
    FROM kinds WHERE aggregate_type IS NOT NULL
    LIMIT 1000
)
SELECT id FROM outbox_event WHERE id = ?2
UNION
SELECT event.id FROM types CROSS JOIN outbox_event AS event
WHERE event.event_type = types.event_type AND event.idempotency_key = ?1
UNION
SELECT id FROM (
    SELECT event.id FROM kinds CROSS JOIN outbox_event AS event
    WHERE event.status <> 'delivered' AND event.aggregate_type = kinds.aggregate_type AND event.aggregate_id = ?1
    LIMIT ?3
)
