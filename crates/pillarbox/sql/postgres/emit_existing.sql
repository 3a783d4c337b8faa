-- Emit: the event that already has the key of a duplicate.
SELECT id, seq, event_type::text, idempotency_key::text, status::text,
       -- Drivers panic on times that they cannot represent, which only another program can have written.
       least(greatest(created_at, '0001-01-01T00:00:00Z'), '9999-12-31T23:59:59Z') AS created_at, 0::bigint AS woken
FROM outbox_event
WHERE event_type = $1 AND idempotency_key = $2
