-- Migrate: creates the table of applied migrations.
CREATE TABLE IF NOT EXISTS outbox_migration (
    version        INTEGER PRIMARY KEY,
    name           TEXT NOT NULL,
    least_program  TEXT NOT NULL,
    applied_at     TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT
