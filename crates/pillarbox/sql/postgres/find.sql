-- Find: events with exactly this id ($2), this key ($1), or this aggregate id ($1), each by an index; at most $3 per aggregate.
-- The index of keys begins with the event type, and the index of aggregates with the aggregate type. The existing types, at
-- most a thousand, are found by skipping from one to the next. Delivered events of aggregates are in no index.
WITH RECURSIVE types (event_type) AS (
    (SELECT event_type FROM {schema}.outbox_event ORDER BY event_type, idempotency_key LIMIT 1)
    UNION ALL
    SELECT (SELECT event.event_type FROM {schema}.outbox_event AS event WHERE event.event_type > types.event_type
            ORDER BY event.event_type, event.idempotency_key LIMIT 1)
    FROM types WHERE event_type IS NOT NULL
), kinds (aggregate_type) AS (
    (SELECT aggregate_type COLLATE "C" FROM {schema}.outbox_event WHERE status || '' <> 'delivered'
     ORDER BY aggregate_type COLLATE "C", aggregate_id COLLATE "C", seq LIMIT 1)
    UNION ALL
    SELECT (SELECT event.aggregate_type COLLATE "C" FROM {schema}.outbox_event AS event
            WHERE event.status || '' <> 'delivered' AND event.aggregate_type COLLATE "C" > kinds.aggregate_type
            ORDER BY event.aggregate_type COLLATE "C", event.aggregate_id COLLATE "C", event.seq LIMIT 1)
    FROM kinds WHERE aggregate_type IS NOT NULL
)
SELECT id FROM {schema}.outbox_event WHERE id = $2
UNION
SELECT found.id
FROM (SELECT event_type FROM types LIMIT 1000) AS type CROSS JOIN LATERAL (
    SELECT id FROM {schema}.outbox_event AS event
    WHERE event.event_type = type.event_type AND event.idempotency_key = $1 LIMIT 1
) AS found
UNION
SELECT found.id
FROM (SELECT aggregate_type FROM kinds LIMIT 1000) AS kind CROSS JOIN LATERAL (
    SELECT id FROM {schema}.outbox_event AS event
    WHERE event.status || '' <> 'delivered' AND event.aggregate_type COLLATE "C" = kind.aggregate_type
      AND event.aggregate_id COLLATE "C" = $1
    ORDER BY event.aggregate_type COLLATE "C" DESC, event.aggregate_id COLLATE "C" DESC, event.seq DESC LIMIT $3
) AS found
