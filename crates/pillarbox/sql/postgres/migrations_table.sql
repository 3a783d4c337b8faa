-- Migrate: creates the table of applied migrations.
CREATE TABLE IF NOT EXISTS outbox_migration (
    version        integer PRIMARY KEY,
    name           varchar(100) NOT NULL,
    least_program  varchar(20) NOT NULL,
    applied_at     timestamptz NOT NULL DEFAULT clock_timestamp()
)
