-- Wal enable: the sessions that write into a table, whose transactions must end before it is added to the publication.
-- $1 the schema, $2 the table.
SELECT lock.pid, format('%s, %s', coalesce(nullif(session.application_name, ''), 'a session'), session.usename) AS name,
       coalesce(extract(epoch FROM clock_timestamp() - session.xact_start), 0)::float8 AS seconds
FROM pg_locks AS lock
JOIN pg_stat_activity AS session ON session.pid = lock.pid
JOIN pg_class AS class ON class.oid = lock.relation
JOIN pg_namespace AS space ON space.oid = class.relnamespace
WHERE space.nspname = $1 AND class.relname = $2 AND lock.granted AND lock.pid <> pg_backend_pid()
  AND lock.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND lock.mode NOT IN ('AccessShareLock', 'RowShareLock')
