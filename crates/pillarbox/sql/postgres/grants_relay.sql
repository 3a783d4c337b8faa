-- Grants for a role that runs relays and administers the outbox.
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.outbox_event, {schema}.outbox_delivery, {schema}.outbox_attempt,
    {schema}.outbox_relay, {schema}.outbox_lane, {schema}.outbox_figure, {schema}.outbox_paused,
    {schema}.outbox_job, {schema}.outbox_session TO {role};
GRANT SELECT, INSERT, UPDATE ON {schema}.outbox_audit TO {role};
GRANT USAGE ON SEQUENCE {schema}.outbox_event_seq_seq TO {role};
GRANT SELECT, UPDATE ON SEQUENCE {schema}.outbox_idle_until TO {role};
GRANT SELECT ON {schema}.outbox_migration TO {role};
GRANT SELECT, UPDATE ON {schema}.outbox_log, {schema}.outbox_log_key TO {role};
GRANT SELECT, UPDATE ON SEQUENCE {schema}.outbox_log_until TO {role};
GRANT EXECUTE ON FUNCTION {schema}.outbox_uuid7, {schema}.outbox_log_timeline, {schema}.outbox_log_content,
    {schema}.outbox_log_open, {schema}.outbox_log_write,
    {schema}.outbox_emit(text, text, text, jsonb, text, jsonb, int, timestamptz, boolean),
    {schema}.outbox_emit(text, bigint, text, jsonb, text, jsonb, int, timestamptz, boolean),
    {schema}.outbox_emit(text, uuid, text, jsonb, text, jsonb, int, timestamptz, boolean),
    {schema}.outbox_emit({schema}.outbox_text, text, {schema}.outbox_text, json, text, json, int, timestamptz, boolean),
    {schema}.outbox_emit({schema}.outbox_text, bigint, {schema}.outbox_text, json, text, json, int, timestamptz, boolean),
    {schema}.outbox_emit({schema}.outbox_text, uuid, {schema}.outbox_text, json, text, json, int, timestamptz, boolean)
    TO {role};
