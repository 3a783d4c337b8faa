-- Grants for a role that only emits. It can read the columns that emit returns, and no payload;
-- and the key of the write-ahead log.
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT INSERT ON {schema}.outbox_event TO {role};
GRANT SELECT (id, seq, event_type, idempotency_key, status, created_at) ON {schema}.outbox_event TO {role};
GRANT USAGE ON SEQUENCE {schema}.outbox_event_seq_seq TO {role};
GRANT SELECT ON SEQUENCE {schema}.outbox_idle_until TO {role};
GRANT SELECT ON {schema}.outbox_log_key TO {role};
GRANT EXECUTE ON FUNCTION {schema}.outbox_uuid7, {schema}.outbox_log_timeline, {schema}.outbox_log_content,
    {schema}.outbox_log_open, {schema}.outbox_log_write,
    {schema}.outbox_emit(text, text, text, jsonb, text, jsonb, int, timestamptz, boolean),
    {schema}.outbox_emit(text, bigint, text, jsonb, text, jsonb, int, timestamptz, boolean),
    {schema}.outbox_emit(text, uuid, text, jsonb, text, jsonb, int, timestamptz, boolean),
    {schema}.outbox_emit({schema}.outbox_text, text, {schema}.outbox_text, json, text, json, int, timestamptz, boolean),
    {schema}.outbox_emit({schema}.outbox_text, bigint, {schema}.outbox_text, json, text, json, int, timestamptz, boolean),
    {schema}.outbox_emit({schema}.outbox_text, uuid, {schema}.outbox_text, json, text, json, int, timestamptz, boolean)
    TO {role};
