-- Find: the newest undelivered events of an aggregate, by the index of aggregates. $1 its type, $2 its id, $3 how many.
SELECT id, seq FROM {schema}.outbox_event
WHERE status || '' <> 'delivered' AND aggregate_type COLLATE "C" = $1 AND aggregate_id COLLATE "C" = $2
ORDER BY aggregate_type COLLATE "C" DESC, aggregate_id COLLATE "C" DESC, seq DESC LIMIT $3
