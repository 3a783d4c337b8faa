-- Replay: these events, if they exist and, with ?2, have not changed since then. ?1 a JSON array of ids.
SELECT id, status, idempotency_key, event_type, aggregate_type FROM outbox_event WHERE id IN (SELECT value FROM json_each(?1)) AND (?2 IS NULL OR updated_at < ?2)
