-- Find: the aggregates among these that have events, by the index of aggregates. ?1 a JSON array of types, ?2 one of ids. The limit of
-- the subquery keeps the servers from reading the whole index once for all aggregates.
SELECT given.aggregate_type, given.aggregate_id
FROM (
    SELECT type.text AS aggregate_type, json_unquote(json_extract(?2, concat('$[', type.place - 1, ']'))) AS aggregate_id
    FROM json_table(?1, '$[*]' COLUMNS (place FOR ORDINALITY, text VARCHAR(100) CHARACTER SET utf8mb4 PATH '$')) AS type
) AS given
WHERE (SELECT event.seq FROM outbox_event AS event FORCE INDEX (outbox_event_order)
       WHERE event.aggregate_type = given.aggregate_type AND event.aggregate_id = given.aggregate_id LIMIT 1) IS NOT NULL
