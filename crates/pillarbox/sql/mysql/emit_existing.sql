-- Emit: the event that already has the key of a duplicate. The lock makes it visible to a transaction that began before it.
SELECT id, seq, event_type, idempotency_key, status, created_at
FROM outbox_event
WHERE event_type = ? AND idempotency_key = ?
LOCK IN SHARE MODE
