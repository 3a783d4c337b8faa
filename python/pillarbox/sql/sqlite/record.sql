-- Emit, for one Celery task that is due now: the row's key is its own id, because a retry has the task's id again.
INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key)
VALUES (?1, 'celery', ?2, ?3, ?4, ?5, ?1)
