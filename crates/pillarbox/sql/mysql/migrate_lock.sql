-- Migrate: waits until no other program migrates this database. ?1 seconds. Returns 1, or 0 after that time.
SELECT coalesce(get_lock(concat('pillarbox.', md5(database())), ?1), 0) AS locked
