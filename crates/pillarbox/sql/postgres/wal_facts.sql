-- Wal enable: what the server and this role allow.
SELECT current_setting('wal_level') AS wal_level, current_setting('server_version_num')::int AS version,
       current_setting('server_encoding') AS encoding, current_database()::text AS database, current_user::text AS role,
       pg_is_in_recovery() AS is_standby,
       -- -1 is no limit.
       CASE current_setting('max_slot_wal_keep_size') WHEN '-1' THEN -1::bigint
            ELSE pg_size_bytes(current_setting('max_slot_wal_keep_size')) END AS keep,
       -- Since version 18. In the server's unit.
       nullif(current_setting('idle_replication_slot_timeout', true), '0') AS idle_timeout,
       current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_replication_slots)::int AS free_slots,
       -- Managed services have roles instead of the attribute.
       EXISTS (SELECT FROM pg_roles WHERE rolname = current_user AND (rolsuper OR rolreplication))
           OR EXISTS (SELECT FROM pg_roles WHERE rolname IN ('rds_replication', 'rds_superuser')
                      AND pg_has_role(current_user, oid, 'USAGE')) AS may_replicate,
       has_database_privilege(current_database(), 'CREATE') AS may_publish,
       -- Walsenders of logical slots are no standbys. A role without pg_read_all_stats does not see their state.
       (SELECT count(*) FROM pg_stat_replication AS sender
        WHERE coalesce(sender.state, 'streaming') = 'streaming' AND NOT EXISTS (
            SELECT FROM pg_replication_slots AS slot WHERE slot.active_pid = sender.pid AND slot.slot_type = 'logical'
        )) AS standbys
