-- Find: the aggregates among these that have undelivered events, by the index of aggregates. $1 types, $2 ids.
SELECT given.aggregate_type, given.aggregate_id
FROM unnest($1::text[], $2::text[]) AS given (aggregate_type, aggregate_id) CROSS JOIN LATERAL (
    SELECT event.seq FROM {schema}.outbox_event AS event
    WHERE event.status || '' <> 'delivered' AND event.aggregate_type COLLATE "C" = given.aggregate_type
      AND event.aggregate_id COLLATE "C" = given.aggregate_id LIMIT 1
) AS existing
