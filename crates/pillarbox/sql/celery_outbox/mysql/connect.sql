-- Sets up a session as Django's are, whose time zone is that of the server: its relay compares its columns with the local time.
-- No gap locks under READ COMMITTED. Not strict: the tables may be latin1, and an error message must not keep a task from
-- becoming a dead letter.
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET autocommit = 1, innodb_lock_wait_timeout = 10, lock_wait_timeout = 30, sql_mode = 'NO_ENGINE_SUBSTITUTION'
