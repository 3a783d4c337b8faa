-- Sets up a session. No gap locks under READ COMMITTED; an invalid value is an error; a lock is not waited for longer than a
-- statement may take.
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET autocommit = 1, time_zone = '+00:00', innodb_lock_wait_timeout = 10, lock_wait_timeout = 30,
    sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'
