-- Neighbours: events of the same aggregate as ?1, ?2 at most before and behind it: what is not delivered by the aggregates' index, and
-- what was delivered among the ?3 events before and behind it by seq, because no index knows it. There are no joins: for the sake
-- of one, SQLite would read a whole index to make a filter of it.
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
