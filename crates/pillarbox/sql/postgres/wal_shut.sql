-- Wal disable: closes the gate.
SELECT setval('{schema}.outbox_log_until'::regclass, 0)
