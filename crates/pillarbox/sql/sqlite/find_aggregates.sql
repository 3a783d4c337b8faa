-- Find: the aggregates among these that have undelivered events, by the index of aggregates. ?1 a JSON array of types, ?2 one of
-- ids.
SELECT type.value AS aggregate_type, name.value AS aggregate_id
FROM json_each(?1) AS type CROSS JOIN json_each(?2) AS name
WHERE name.key = type.key
  AND EXISTS (SELECT 1 FROM outbox_event AS event INDEXED BY outbox_event_order
              WHERE event.status <> 'delivered' AND event.aggregate_type = type.value AND event.aggregate_id = name.value)
