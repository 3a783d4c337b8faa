-- Find: existing aggregate types: of undelivered events at most a thousand, by skipping from one to the next in the index of
-- aggregates; of all events those among the newest $1, by id.
WITH RECURSIVE types (aggregate_type) AS (
    (SELECT aggregate_type COLLATE "C" FROM {schema}.outbox_event WHERE status || '' <> 'delivered'
     ORDER BY aggregate_type COLLATE "C", aggregate_id COLLATE "C", seq LIMIT 1)
    UNION ALL
    SELECT (SELECT event.aggregate_type COLLATE "C" FROM {schema}.outbox_event AS event
            WHERE event.status || '' <> 'delivered' AND event.aggregate_type COLLATE "C" > types.aggregate_type
            ORDER BY event.aggregate_type COLLATE "C", event.aggregate_id COLLATE "C", event.seq LIMIT 1)
    FROM types WHERE aggregate_type IS NOT NULL
)
SELECT aggregate_type::text COLLATE "C" AS aggregate_type
FROM (SELECT aggregate_type FROM types LIMIT 1000) AS undelivered WHERE aggregate_type IS NOT NULL
UNION
SELECT aggregate_type::text COLLATE "C"
FROM (SELECT aggregate_type FROM {schema}.outbox_event ORDER BY id DESC LIMIT $1) AS recent
