-- Find: the newest events of an aggregate, by the index of aggregates. ?1 its type, ?2 its id, ?3 how many of each status.
(SELECT id, seq FROM outbox_event FORCE INDEX (outbox_event_order)
 WHERE aggregate_type = ?1 AND aggregate_id = ?2 AND status = 'pending' ORDER BY seq DESC LIMIT ?3)
UNION ALL
(SELECT id, seq FROM outbox_event FORCE INDEX (outbox_event_order)
 WHERE aggregate_type = ?1 AND aggregate_id = ?2 AND status = 'failed' ORDER BY seq DESC LIMIT ?3)
UNION ALL
(SELECT id, seq FROM outbox_event FORCE INDEX (outbox_event_order)
 WHERE aggregate_type = ?1 AND aggregate_id = ?2 AND status = 'delivered' ORDER BY seq DESC LIMIT ?3)
