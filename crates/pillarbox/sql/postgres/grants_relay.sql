-- Grants for a role that runs relays and administers the outbox.
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.outbox_event, {schema}.outbox_delivery, {schema}.outbox_attempt,
    {schema}.outbox_relay, {schema}.outbox_lane, {schema}.outbox_figure, {schema}.outbox_paused,
    {schema}.outbox_job, {schema}.outbox_session TO {role};
GRANT SELECT, INSERT, UPDATE ON {schema}.outbox_audit TO {role};
GRANT USAGE ON SEQUENCE {schema}.outbox_event_seq_seq TO {role};
GRANT SELECT, UPDATE ON SEQUENCE {schema}.outbox_idle_until TO {role};
GRANT SELECT ON {schema}.outbox_migration TO {role};
GRANT EXECUTE ON FUNCTION {schema}.outbox_emit, {schema}.outbox_uuid7 TO {role};
