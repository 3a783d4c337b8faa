-- The state of the slot before it is streamed. A connection that still streams it is that of a dead leader, because the epoch
-- is this leader's: it is terminated. $1 epoch.
SELECT slot.slot_name IS NOT NULL, slot.wal_status, slot.confirmed_flush_lsn::text, log.confirmed::text,
       pg_current_wal_insert_lsn()::text, current_setting('wal_level'),
       CASE WHEN slot.active_pid IS NOT NULL THEN pg_terminate_backend(slot.active_pid) END, log.system_id
FROM {schema}.outbox_log AS log
LEFT JOIN pg_replication_slots AS slot
    ON slot.slot_name = log.slot AND slot.database = current_database() AND slot.plugin = 'pgoutput'
WHERE log.epoch = $1
