-- Grants for a role that only emits.
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT, INSERT ON {schema}.outbox_event TO {role};
GRANT USAGE ON SEQUENCE {schema}.outbox_event_seq_seq TO {role};
GRANT SELECT ON {schema}.outbox_relay TO {role};
GRANT EXECUTE ON FUNCTION {schema}.outbox_emit, {schema}.outbox_uuid7 TO {role};
