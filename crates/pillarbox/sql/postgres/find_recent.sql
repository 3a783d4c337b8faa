-- Find: the events of these aggregates among the newest $3 events, by id, because no index has delivered events by aggregate.
-- $1 types, $2 ids.
SELECT recent.id, recent.seq
FROM (SELECT id, seq, aggregate_type, aggregate_id FROM {schema}.outbox_event ORDER BY id DESC LIMIT $3) AS recent
WHERE EXISTS (SELECT 1 FROM unnest($1::text[], $2::text[]) AS given (aggregate_type, aggregate_id)
              WHERE given.aggregate_type = recent.aggregate_type AND given.aggregate_id = recent.aggregate_id)
