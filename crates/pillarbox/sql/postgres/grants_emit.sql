-- Grants for a role that only emits. It can read the columns that emit returns, and no payload.
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT INSERT ON {schema}.outbox_event TO {role};
GRANT SELECT (id, seq, event_type, idempotency_key, status, created_at) ON {schema}.outbox_event TO {role};
GRANT USAGE ON SEQUENCE {schema}.outbox_event_seq_seq TO {role};
GRANT SELECT ON SEQUENCE {schema}.outbox_idle_until TO {role};
GRANT EXECUTE ON FUNCTION {schema}.outbox_emit, {schema}.outbox_uuid7 TO {role};
