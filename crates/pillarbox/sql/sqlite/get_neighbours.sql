-- Neighbours: events of the same aggregate as ?1, at most ?2 before and ?2 after it. Undelivered events are found by the index
-- of aggregates. Delivered events are searched among the ?3 events before and after it by seq, because no index has them. There
-- are no joins: for a join, SQLite would read a whole index to build a filter.
WITH event AS MATERIALIZED (SELECT seq, aggregate_type, aggregate_id FROM outbox_event WHERE id = ?1)
SELECT id FROM (
    SELECT id FROM outbox_event INDEXED BY outbox_event_order
    WHERE status <> 'delivered' AND aggregate_type = (SELECT aggregate_type FROM event)
      AND aggregate_id = (SELECT aggregate_id FROM event) AND seq < (SELECT seq FROM event)
    ORDER BY seq DESC LIMIT ?2
)
UNION
SELECT id FROM (
    SELECT id FROM outbox_event INDEXED BY outbox_event_order
    WHERE status <> 'delivered' AND aggregate_type = (SELECT aggregate_type FROM event)
      AND aggregate_id = (SELECT aggregate_id FROM event) AND seq > (SELECT seq FROM event)
    ORDER BY seq LIMIT ?2
)
UNION
SELECT id FROM (
    SELECT id FROM (SELECT seq, id, aggregate_type, aggregate_id FROM outbox_event
                    WHERE seq < (SELECT seq FROM event) ORDER BY seq DESC LIMIT ?3)
    WHERE aggregate_type = (SELECT aggregate_type FROM event) AND aggregate_id = (SELECT aggregate_id FROM event)
    ORDER BY seq DESC LIMIT ?2
)
UNION
SELECT id FROM (
    SELECT id FROM (SELECT seq, id, aggregate_type, aggregate_id FROM outbox_event
                    WHERE seq > (SELECT seq FROM event) ORDER BY seq LIMIT ?3)
    WHERE aggregate_type = (SELECT aggregate_type FROM event) AND aggregate_id = (SELECT aggregate_id FROM event)
    ORDER BY seq LIMIT ?2
)
