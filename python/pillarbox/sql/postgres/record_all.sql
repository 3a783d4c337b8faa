-- Emit, for many Celery tasks, or one that is due later: as record_and_wake.sql, $1 a JSON array of rows, in their order.
-- They share one moment.
WITH written AS (
    INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key,
                              next_attempt_at, created_at, updated_at)
    SELECT task.id, 'celery', task.aggregate_id, task.event_type, task.payload, task.headers, task.id::text,
           greatest(task.due, clock.now), clock.now, clock.now
    FROM ROWS FROM (json_to_recordset($1::json)
             AS (id uuid, aggregate_id text, event_type text, payload jsonb, headers jsonb, due timestamptz))
         WITH ORDINALITY AS task (id, aggregate_id, event_type, payload, headers, due, place),
         (SELECT clock_timestamp() AS now) AS clock
    ORDER BY task.place
)
-- NOTIFY makes commits queue for one lock: only while a relay has said that it is idle.
SELECT pg_notify('outbox_wake', '')
WHERE pg_sequence_last_value('outbox_idle_until') > date_part('epoch', clock_timestamp())
