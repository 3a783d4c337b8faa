-- Replay: what there is of these events. $1 ids.
SELECT id, status::text, idempotency_key::text FROM {schema}.outbox_event WHERE id = ANY ($1)
