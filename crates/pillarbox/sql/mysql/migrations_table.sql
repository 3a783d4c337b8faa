-- Migrate: creates the table of applied migrations.
CREATE TABLE IF NOT EXISTS outbox_migration (
    version        INTEGER NOT NULL PRIMARY KEY,
    name           VARCHAR(100) NOT NULL,
    least_program  VARCHAR(20) NOT NULL,
    applied_at     DATETIME(6) NOT NULL DEFAULT (utc_timestamp(6))
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE {collation}
