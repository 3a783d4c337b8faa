-- Migrate: the applied migrations.
SELECT version, least_program FROM outbox_migration ORDER BY version
