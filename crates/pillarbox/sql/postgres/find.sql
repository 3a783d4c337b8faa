-- Find: events with exactly this id ($2) or one of these keys ($1), each by an index. The index of keys begins with the event
-- type. The existing types, at most a thousand, are found by skipping from one to the next.
WITH RECURSIVE types (event_type) AS (
    (SELECT event_type FROM {schema}.outbox_event ORDER BY event_type, idempotency_key LIMIT 1)
    UNION ALL
    SELECT (SELECT event.event_type FROM {schema}.outbox_event AS event WHERE event.event_type > types.event_type
            ORDER BY event.event_type, event.idempotency_key LIMIT 1)
    FROM types WHERE event_type IS NOT NULL
)
SELECT id FROM {schema}.outbox_event WHERE id = $2
UNION
SELECT found.id
FROM (SELECT event_type FROM types LIMIT 1000) AS type CROSS JOIN unnest($1::text[]) AS key CROSS JOIN LATERAL (
    SELECT id FROM {schema}.outbox_event AS event
    WHERE event.event_type = type.event_type AND event.idempotency_key = key LIMIT 1
) AS found
