-- Whether the session of this name works on a statement. A session that waits in a transaction is ended: its client has
-- heard nothing of it for too long and has given it up, and its locks hold up everybody else. Behind a transaction pooler
-- a session has our name as long as our transaction is open.
SELECT state = 'active' AS working,
       CASE WHEN state LIKE 'idle in transaction%' THEN pg_terminate_backend(pid) END AS ended
FROM pg_stat_activity
WHERE application_name = $1 AND usename = current_user
