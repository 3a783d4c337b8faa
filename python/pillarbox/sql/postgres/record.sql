-- Emit, for one Celery task that is due now: the row's key is its own id, because a retry has the task's id again.
INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key,
                          next_attempt_at, created_at, updated_at)
SELECT $1::uuid, 'celery', $2, $3, $4::jsonb, $5::jsonb, $1::text, now, now, now
FROM (VALUES (clock_timestamp())) AS clock (now)
