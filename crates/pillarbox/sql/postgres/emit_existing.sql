-- Emit: the event that a duplicate is a duplicate of.
SELECT id, seq, event_type::text, idempotency_key::text, status::text, created_at, 0::bigint AS woken
FROM outbox_event
WHERE event_type = $1 AND idempotency_key = $2
