-- Neighbours: events of the same aggregate as ?1, ?2 at most before and behind it: what is not delivered by the aggregates' index, and
-- what was delivered among the ?3 events before and behind it by seq, because no index knows it.
WITH event AS MATERIALIZED (SELECT seq, aggregate_type, aggregate_id FROM outbox_event WHERE id = ?1)
SELECT id FROM (
    SELECT other.id FROM event CROSS JOIN outbox_event AS other
    WHERE other.status <> 'delivered' AND other.aggregate_type = event.aggregate_type
      AND other.aggregate_id = event.aggregate_id AND other.seq < event.seq
    ORDER BY other.seq DESC LIMIT ?2
)
UNION
SELECT id FROM (
    SELECT other.id FROM event CROSS JOIN outbox_event AS other
    WHERE other.status <> 'delivered' AND other.aggregate_type = event.aggregate_type
      AND other.aggregate_id = event.aggregate_id AND other.seq > event.seq
    ORDER BY other.seq LIMIT ?2
)
UNION
SELECT id FROM (
    SELECT near.id FROM event CROSS JOIN (
        SELECT seq, id, aggregate_type, aggregate_id FROM outbox_event
        WHERE seq < (SELECT seq FROM event) ORDER BY seq DESC LIMIT ?3
    ) AS near
    WHERE near.aggregate_type = event.aggregate_type AND near.aggregate_id = event.aggregate_id
    ORDER BY near.seq DESC LIMIT ?2
)
UNION
SELECT id FROM (
    SELECT near.id FROM event CROSS JOIN (
        SELECT seq, id, aggregate_type, aggregate_id FROM outbox_event
        WHERE seq > (SELECT seq FROM event) ORDER BY seq LIMIT ?3
    ) AS near
    WHERE near.aggregate_type = event.aggregate_type AND near.aggregate_id = event.aggregate_id
    ORDER BY near.seq LIMIT ?2
)
