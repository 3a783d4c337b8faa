-- Neighbours: events of the same aggregate as $1, $2 at most before and behind it: what is not delivered by the aggregates' index, and
-- what was delivered among the $3 events before and behind it by id, because no index knows it.
WITH event AS MATERIALIZED (
    SELECT id, seq, aggregate_type::text, aggregate_id::text FROM {schema}.outbox_event WHERE id = $1
)
SELECT before.id FROM event CROSS JOIN LATERAL (
    SELECT other.id FROM {schema}.outbox_event AS other
    WHERE other.status || '' <> 'delivered' AND other.aggregate_type COLLATE "C" = event.aggregate_type
      AND other.aggregate_id COLLATE "C" = event.aggregate_id AND other.seq < event.seq
    ORDER BY other.seq DESC LIMIT $2
) AS before
UNION
SELECT behind.id FROM event CROSS JOIN LATERAL (
    SELECT other.id FROM {schema}.outbox_event AS other
    WHERE other.status || '' <> 'delivered' AND other.aggregate_type COLLATE "C" = event.aggregate_type
      AND other.aggregate_id COLLATE "C" = event.aggregate_id AND other.seq > event.seq
    ORDER BY other.seq LIMIT $2
) AS behind
UNION
SELECT before.id FROM event CROSS JOIN LATERAL (
    SELECT near.id FROM (SELECT other.id, other.aggregate_type, other.aggregate_id FROM {schema}.outbox_event AS other
                         WHERE other.id < event.id ORDER BY other.id DESC LIMIT $3) AS near
    WHERE near.aggregate_type = event.aggregate_type AND near.aggregate_id = event.aggregate_id LIMIT $2
) AS before
UNION
SELECT behind.id FROM event CROSS JOIN LATERAL (
    SELECT near.id FROM (SELECT other.id, other.aggregate_type, other.aggregate_id FROM {schema}.outbox_event AS other
                         WHERE other.id > event.id ORDER BY other.id LIMIT $3) AS near
    WHERE near.aggregate_type = event.aggregate_type AND near.aggregate_id = event.aggregate_id LIMIT $2
) AS behind
