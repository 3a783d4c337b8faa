-- Emit, for one Celery task that is the first of its transaction: as record.sql, and wakes a relay when that commits.
WITH written AS (
    INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key)
    VALUES ($1, 'celery', $2, $3, $4, $5, $1)
)
-- NOTIFY makes commits queue for one lock: only when a relay has said that it is idle, and lately.
SELECT pg_notify('outbox_wake', '') FROM outbox_relay
WHERE idle AND heartbeat_at > clock_timestamp() - interval '15 seconds' LIMIT 1
