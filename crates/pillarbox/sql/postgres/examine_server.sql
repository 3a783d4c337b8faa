-- Examine: the server, its clock, and the state of its vacuum. $1 the schema.
SELECT current_setting('server_version') AS version, current_setting('server_version_num')::int AS number,
       extract(epoch FROM clock_timestamp())::float8 AS clock, current_user::text AS role,
       pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS sees_sessions,
       current_setting('autovacuum') = 'on'
           AND NOT coalesce('autovacuum_enabled=false' = ANY (class.reloptions)
                            OR 'autovacuum_enabled=off' = ANY (class.reloptions), false) AS vacuums,
       coalesce(stat.n_live_tup, 0) AS live, coalesce(stat.n_dead_tup, 0) AS dead,
       extract(epoch FROM clock_timestamp() - greatest(stat.last_autovacuum, stat.last_vacuum))::float8 AS vacuumed_ago
FROM pg_class AS class LEFT JOIN pg_stat_all_tables AS stat ON stat.relid = class.oid
WHERE class.oid = (quote_ident($1) || '.outbox_event')::regclass
