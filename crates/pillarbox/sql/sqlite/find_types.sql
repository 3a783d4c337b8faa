-- Find: existing aggregate types: of undelivered events at most a thousand, by skipping from one to the next in the index of
-- aggregates; of all events those among the newest ?1.
WITH RECURSIVE types (aggregate_type) AS (
    SELECT min(aggregate_type) FROM outbox_event INDEXED BY outbox_event_order WHERE status <> 'delivered'
    UNION ALL
    SELECT (SELECT min(event.aggregate_type) FROM outbox_event AS event INDEXED BY outbox_event_order
            WHERE event.status <> 'delivered' AND event.aggregate_type > types.aggregate_type)
    FROM types WHERE aggregate_type IS NOT NULL
    LIMIT 1000
)
SELECT aggregate_type FROM types WHERE aggregate_type IS NOT NULL
UNION
SELECT aggregate_type FROM (SELECT aggregate_type FROM outbox_event ORDER BY seq DESC LIMIT ?1)
