-- Beat: renews the leader's lease, stores its position, and opens the gate for emits if it may be open, or closes it. The
-- position is on disk when this returns: the server is told only afterwards that it may forget the log up to there.
-- $1 leader, $2 epoch, $3 seconds of the lease, $4 position, $5 the reason why the relay wants the gate closed, $6 seconds that
-- the gate stays open, $7 system identifier of the server that is streamed.
WITH slot AS MATERIALIZED (
    SELECT log.slot, log.leaving, slot.wal_status, slot.safe_wal_size,
           pg_size_bytes(current_setting('max_slot_wal_keep_size')) AS keep
    FROM {schema}.outbox_log AS log
    LEFT JOIN pg_replication_slots AS slot ON slot.slot_name = log.slot AND slot.database = current_database()
), judged AS MATERIALIZED (
    SELECT CASE
        WHEN $5::text IS NOT NULL THEN $5
        WHEN leaving THEN 'the log is being disabled'
        WHEN current_setting('wal_level') <> 'logical' THEN
            'wal_level is ' || current_setting('wal_level') || '; set it to logical and restart the server'
        WHEN wal_status IS NULL THEN 'the replication slot ' || slot || ' does not exist'
        WHEN wal_status NOT IN ('reserved', 'extended') THEN 'the replication slot ' || slot || ' is ' || wal_status
        WHEN keep < 0 THEN 'max_slot_wal_keep_size has no limit, so a slot that nobody reads could fill the disk; set one'
        WHEN safe_wal_size < keep / 4 THEN
            'less than a quarter of max_slot_wal_keep_size is left; the relay is behind, or a long transaction is open'
        END AS closed
    FROM slot
)
UPDATE {schema}.outbox_log AS log
SET leader_until = clock_timestamp() + $3 * interval '1 second', confirmed = greatest(confirmed, $4::text::pg_lsn),
    closed = coalesce(judged.closed, ''), system_id = coalesce($7, log.system_id)
FROM judged,
     (SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'local'
                        ELSE current_setting('synchronous_commit') END, true)) AS durable
WHERE log.leader = $1 AND log.epoch = $2
RETURNING log.confirmed::text, log.leaving, judged.closed, (pg_current_wal_insert_lsn() - log.confirmed)::bigint,
          setval('{schema}.outbox_log_until'::regclass,
                 -- `leaving` once more: the row may have changed since it was judged.
                 CASE WHEN judged.closed IS NULL AND NOT log.leaving THEN ceil(date_part('epoch', clock_timestamp()) + $6)::bigint ELSE 0 END)
