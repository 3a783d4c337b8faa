-- Find: the newest undelivered events of an aggregate, by the index of aggregates. ?1 its type, ?2 its id, ?3 how many.
SELECT id, seq FROM outbox_event INDEXED BY outbox_event_order
WHERE status <> 'delivered' AND aggregate_type = ?1 AND aggregate_id = ?2
ORDER BY seq DESC LIMIT ?3
