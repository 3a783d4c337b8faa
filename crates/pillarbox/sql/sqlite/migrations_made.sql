-- Migrate: what has been applied.
SELECT version, least_program FROM outbox_migration ORDER BY version
