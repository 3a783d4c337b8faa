-- Find: the events of these aggregates among the newest ?3 events, because no index has delivered events by aggregate. ?1 a JSON
-- array of types, ?2 one of ids.
WITH given (aggregate_type, aggregate_id) AS MATERIALIZED (
    SELECT type.value, name.value FROM json_each(?1) AS type CROSS JOIN json_each(?2) AS name WHERE name.key = type.key
)
SELECT id, seq FROM (SELECT id, seq, aggregate_type, aggregate_id FROM outbox_event ORDER BY seq DESC LIMIT ?3) AS recent
WHERE (aggregate_type, aggregate_id) IN (SELECT aggregate_type, aggregate_id FROM given)
