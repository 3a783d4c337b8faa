-- Returns whether the session with this name works on a statement. A session that waits in a transaction is terminated: its
-- client timed out and abandoned it, and its locks block others. Behind a transaction pooler, a server session has this name
-- as long as the transaction is open.
SELECT state = 'active' AS working,
       CASE WHEN state LIKE 'idle in transaction%' THEN pg_terminate_backend(pid) END AS ended
FROM pg_stat_activity
WHERE application_name = $1 AND usename = current_user
