-- Grants for an account that runs relays and administers the outbox.
GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.outbox_event TO {account};
GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.outbox_delivery TO {account};
GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.outbox_attempt TO {account};
GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.outbox_relay TO {account};
GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.outbox_lane TO {account};
GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.outbox_figure TO {account};
GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.outbox_paused TO {account};
GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.outbox_job TO {account};
GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.outbox_session TO {account};
GRANT SELECT, INSERT, UPDATE ON {database}.outbox_audit TO {account};
GRANT SELECT ON {database}.outbox_migration TO {account};
GRANT EXECUTE ON PROCEDURE {database}.outbox_emit TO {account};
