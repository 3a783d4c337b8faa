-- Returns whether the log is enabled.
SELECT EXISTS (SELECT FROM {schema}.outbox_log)
