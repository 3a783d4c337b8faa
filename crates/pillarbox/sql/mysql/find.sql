-- Find: events with exactly this id (?2), this key (?1), or this aggregate id (?1), each by an index; at most ?3 for
-- aggregates. The index of keys begins with the event type, and the index of aggregates with the aggregate type. The existing
-- types, at most a thousand, are found by skipping from one to the next.
SELECT id FROM outbox_event WHERE id = ?2
UNION
SELECT event.id
FROM (SELECT DISTINCT event_type FROM outbox_event LIMIT 1000) AS types
STRAIGHT_JOIN outbox_event AS event FORCE INDEX (outbox_event_key)
WHERE event.event_type = types.event_type AND event.idempotency_key = ?1
UNION
SELECT found.id FROM (
    SELECT event.id
    FROM (SELECT DISTINCT aggregate_type FROM outbox_event LIMIT 1000) AS kinds
    STRAIGHT_JOIN outbox_event AS event FORCE INDEX (outbox_event_order)
    WHERE event.aggregate_type = kinds.aggregate_type AND event.aggregate_id = ?1 AND event.status <> 'delivered'
    LIMIT ?3
) AS found
