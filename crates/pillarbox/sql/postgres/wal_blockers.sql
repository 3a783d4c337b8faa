-- Wal enable: the transactions that a session waits for. $1 its process id.
SELECT coalesce(session.pid, 0) AS pid,
       coalesce(format('%s, %s', coalesce(nullif(session.application_name, ''), 'a session'), session.usename),
                'a prepared transaction, see pg_prepared_xacts') AS name,
       coalesce(extract(epoch FROM clock_timestamp() - session.xact_start), 0)::float8 AS seconds
FROM unnest(pg_blocking_pids($1)) AS blocker (pid)
LEFT JOIN pg_stat_activity AS session ON session.pid = blocker.pid AND blocker.pid <> 0
