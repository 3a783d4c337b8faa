-- Migrate: what has been applied.
SELECT version, least_program FROM {schema}.outbox_migration ORDER BY version
