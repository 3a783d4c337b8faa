-- Neighbours: events of the same aggregate as $1, at most $2 before and $2 after it. Undelivered events are found by the index
-- of aggregates. Delivered events are searched among the $3 events before and after it by id, because no index has them.
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
