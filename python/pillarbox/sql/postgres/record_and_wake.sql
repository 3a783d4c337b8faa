-- Emit, for one Celery task that is the first of its transaction: as record.sql, and wakes a relay when that commits.
WITH written AS (
    INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key,
                              next_attempt_at, created_at, updated_at)
    SELECT $1::uuid, 'celery', $2, $3, $4::jsonb, $5::jsonb, $1::text, now, now, now
    FROM (VALUES (clock_timestamp())) AS clock (now)
)
-- NOTIFY makes commits queue for one lock: only while a relay has said that it is idle.
SELECT pg_notify('outbox_wake', '')
WHERE pg_sequence_last_value('outbox_idle_until') > date_part('epoch', clock_timestamp())
