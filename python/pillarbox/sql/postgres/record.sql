-- Emit, for one Celery task: the row's key is its own id, because a retry has the task's id again. $7 is when it is due, or
-- null for now.
INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key, next_attempt_at)
VALUES ($1, $2, $3, $4, $5::jsonb, $6::jsonb, $1, coalesce($7::timestamptz, clock_timestamp()))
