-- Migrate: lets other programs migrate.
DO release_lock(concat('pillarbox.', md5(database())))
