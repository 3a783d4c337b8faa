-- Migrate: records an applied migration. ?1 version, ?2 name, ?3 the lowest program version that can work on it.
INSERT INTO outbox_migration (version, name, least_program) VALUES (?1, ?2, ?3)
