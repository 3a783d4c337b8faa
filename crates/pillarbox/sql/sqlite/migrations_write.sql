-- Migrate: what has been applied now. ?1 version, ?2 name, ?3 the least program that can work on it.
INSERT INTO outbox_migration (version, name, least_program) VALUES (?1, ?2, ?3)
