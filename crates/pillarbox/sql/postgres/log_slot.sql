-- The state of the slot before it is streamed. A connection that still streams it is that of a dead leader, because the epoch
-- is this leader's: it is terminated, and so is a transaction in which a dead leader pours. A synchronised slot came from another server, before this one was
-- promoted. $1 epoch, $2 timeline of the lead, $3 leader.
SELECT slot.slot_name IS NOT NULL, slot.wal_status, slot.confirmed_flush_lsn::text, log.confirmed::text,
       pg_current_wal_insert_lsn()::text, current_setting('wal_level'),
       CASE WHEN slot.active_pid IS NOT NULL THEN pg_terminate_backend(slot.active_pid) END, log.system_id,
       coalesce((to_jsonb(slot.*) ->> 'synced')::boolean, false),
       -- Commits would wait for the relay, which waits until it sees them.
       current_setting('synchronous_standby_names') ~* '(^|[ ,("])([*]|pillarbox/log)($|[ ,)"])',
       -- The lock of log_pour.sql.
       (SELECT count(pg_terminate_backend(pour.pid)) FROM pg_locks AS pour
        WHERE pour.locktype = 'advisory' AND pour.objsubid = 2
          AND pour.database = (SELECT oid FROM pg_database WHERE datname = current_database())
          AND pour.classid = (hashtext('pillarbox/pour')::bigint & 4294967295)::oid
          AND pour.objid = (hashtext(log.slot::text)::bigint & 4294967295)::oid)
FROM {schema}.outbox_log AS log
LEFT JOIN pg_replication_slots AS slot
    ON slot.slot_name = log.slot AND slot.database = current_database() AND slot.plugin = 'pgoutput'
WHERE log.epoch = $1 AND log.leader = $3 AND {schema}.outbox_log_timeline() = $2::text
