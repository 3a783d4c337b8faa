-- Wal disable: removes what emit and relays know of the log.
WITH key AS (DELETE FROM {schema}.outbox_log_key)
DELETE FROM {schema}.outbox_log
