-- Replay: these events, if they exist and, with $2, have not changed since then. $1 ids.
SELECT id, status::text, idempotency_key::text, event_type::text, aggregate_type::text FROM {schema}.outbox_event WHERE id = ANY ($1)
  AND ($2::timestamptz IS NULL OR updated_at < $2)
