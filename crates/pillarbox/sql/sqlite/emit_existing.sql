-- Emit: the event that already has the key of a duplicate.
SELECT id, seq, event_type, idempotency_key, status, created_at
FROM outbox_event
WHERE event_type = ?1 AND idempotency_key = ?2
