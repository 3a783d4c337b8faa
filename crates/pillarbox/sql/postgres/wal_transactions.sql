-- Wal disable: the open transactions of this database, by names that no later one has. Without $1 all of them, otherwise those
-- among $1 that are still open. Everybody may read these views.
SELECT open.name, open.pid, open.told
FROM (
    SELECT lock.virtualxid || '/' || lock.pid AS name, lock.pid,
           format('process %s, %s', lock.pid, coalesce(nullif(session.application_name, ''), 'a session')) AS told
    FROM pg_locks AS lock JOIN pg_stat_activity AS session ON session.pid = lock.pid
    WHERE lock.locktype = 'virtualxid' AND lock.granted AND lock.pid <> pg_backend_pid()
      AND session.datname = current_database()
      -- The reader of the log has transactions of its own and writes nothing.
      AND NOT EXISTS (SELECT FROM pg_replication_slots AS slot WHERE slot.active_pid = lock.pid)
    UNION ALL
    SELECT 'prepared/' || transaction || '/' || gid, 0, format('the prepared transaction %s', gid)
    FROM pg_prepared_xacts WHERE database = current_database()
) AS open
WHERE $1::text[] IS NULL OR open.name = ANY ($1)
