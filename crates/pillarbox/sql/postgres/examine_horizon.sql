-- Examine: the sessions, prepared transactions and replication slots that prevent the cleanup of dead rows, and for how long.
-- $1 the minimum of seconds.
SELECT kind, name, seconds FROM (
    SELECT 'session' AS kind,
           format('%s, %s of %s, %s', pid, coalesce(nullif(application_name, ''), 'a session'), usename, state) AS name,
           extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds, pid::text AS handle
    FROM pg_stat_activity
    WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND backend_type = 'client backend' AND pid <> pg_backend_pid()
    UNION ALL
    SELECT 'prepared', gid, extract(epoch FROM clock_timestamp() - prepared)::float8, gid FROM pg_prepared_xacts
    UNION ALL
    SELECT 'slot', slot_name::text, age(xmin)::float8, slot_name::text FROM pg_replication_slots
    WHERE xmin IS NOT NULL AND NOT active
) AS holder
WHERE seconds > $1
ORDER BY seconds DESC
LIMIT 5
