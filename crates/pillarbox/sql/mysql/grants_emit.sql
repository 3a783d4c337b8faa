-- Grants for an account that only emits. It can read the columns that emit returns, and no payload.
GRANT INSERT, SELECT (id, seq, event_type, idempotency_key, status, created_at) ON {database}.outbox_event TO {account};
GRANT EXECUTE ON PROCEDURE {database}.outbox_emit TO {account};
