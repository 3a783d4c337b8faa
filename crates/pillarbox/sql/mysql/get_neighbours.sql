-- Neighbours: events of the same aggregate as ?1, at most ?2 before and ?2 after it, by the index of aggregates.
-- ?3, the number of events to search where no index has them, is not needed: this index has delivered events, too.
(SELECT id FROM (
    (SELECT id, seq FROM outbox_event FORCE INDEX (outbox_event_order)
     WHERE aggregate_type = (SELECT aggregate_type FROM outbox_event WHERE id = ?1)
       AND aggregate_id = (SELECT aggregate_id FROM outbox_event WHERE id = ?1)
       AND status = 'pending' AND seq < (SELECT seq FROM outbox_event WHERE id = ?1)
     ORDER BY seq DESC LIMIT ?2)
    UNION ALL
    (SELECT id, seq FROM outbox_event FORCE INDEX (outbox_event_order)
     WHERE aggregate_type = (SELECT aggregate_type FROM outbox_event WHERE id = ?1)
       AND aggregate_id = (SELECT aggregate_id FROM outbox_event WHERE id = ?1)
       AND status = 'failed' AND seq < (SELECT seq FROM outbox_event WHERE id = ?1)
     ORDER BY seq DESC LIMIT ?2)
    UNION ALL
    (SELECT id, seq FROM outbox_event FORCE INDEX (outbox_event_order)
     WHERE aggregate_type = (SELECT aggregate_type FROM outbox_event WHERE id = ?1)
       AND aggregate_id = (SELECT aggregate_id FROM outbox_event WHERE id = ?1)
       AND status = 'delivered' AND seq < (SELECT seq FROM outbox_event WHERE id = ?1)
     ORDER BY seq DESC LIMIT ?2)
) AS earlier ORDER BY seq DESC LIMIT ?2)
UNION ALL
(SELECT id FROM (
    (SELECT id, seq FROM outbox_event FORCE INDEX (outbox_event_order)
     WHERE aggregate_type = (SELECT aggregate_type FROM outbox_event WHERE id = ?1)
       AND aggregate_id = (SELECT aggregate_id FROM outbox_event WHERE id = ?1)
       AND status = 'pending' AND seq > (SELECT seq FROM outbox_event WHERE id = ?1)
     ORDER BY seq LIMIT ?2)
    UNION ALL
    (SELECT id, seq FROM outbox_event FORCE INDEX (outbox_event_order)
     WHERE aggregate_type = (SELECT aggregate_type FROM outbox_event WHERE id = ?1)
       AND aggregate_id = (SELECT aggregate_id FROM outbox_event WHERE id = ?1)
       AND status = 'failed' AND seq > (SELECT seq FROM outbox_event WHERE id = ?1)
     ORDER BY seq LIMIT ?2)
    UNION ALL
    (SELECT id, seq FROM outbox_event FORCE INDEX (outbox_event_order)
     WHERE aggregate_type = (SELECT aggregate_type FROM outbox_event WHERE id = ?1)
       AND aggregate_id = (SELECT aggregate_id FROM outbox_event WHERE id = ?1)
       AND status = 'delivered' AND seq > (SELECT seq FROM outbox_event WHERE id = ?1)
     ORDER BY seq LIMIT ?2)
) AS later ORDER BY seq LIMIT ?2)
