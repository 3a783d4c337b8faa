-- Migrate: the applied migrations.
SELECT version, least_program FROM {schema}.outbox_migration ORDER BY version
