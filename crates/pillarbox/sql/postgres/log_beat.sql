-- Beat: renews the leader's lease, stores its position, and opens the gate for emits if it may be open, or closes it. The
-- position is on disk when this returns: the server is told only afterwards that it may forget the log up to there.
-- $1 leader, $2 epoch, $3 seconds of the lease, $4 position, $5 the reason why the relay wants the gate closed, $6 seconds that
-- the gate stays open, $7 system identifier of the server that is streamed, $8 timeline of the lead, $9 the commit of the oldest event that
-- is neither delivered nor in the table, $10 whether there is none, and everything up to the last beat was read, $11 as $5, if the server
-- has no better reason, $12 whether the slot may be lost with the server. No row if another relay
-- leads, or on another timeline: positions of a killed primary may be behind spills that a promoted standby does not have. Nor if
-- the log ends before the position.
WITH slot AS MATERIALIZED (
    SELECT log.slot, log.leaving, slot.wal_status, slot.safe_wal_size,
           pg_size_bytes(current_setting('max_slot_wal_keep_size')) AS keep,
           -- Since version 17 the server sends a failover slot only what these standbys have.
           CASE WHEN (to_jsonb(slot.*) ->> 'failover')::boolean
                THEN nullif(current_setting('synchronized_standby_slots', true), '') END AS waits_for
    FROM {schema}.outbox_log AS log
    LEFT JOIN pg_replication_slots AS slot ON slot.slot_name = log.slot AND slot.database = current_database()
), standbys AS MATERIALIZED (
    SELECT string_agg(wanted.name, ', ') AS missing
    FROM slot, regexp_split_to_table(translate(slot.waits_for, '" ', ''), ',') AS wanted (name)
    WHERE NOT EXISTS (SELECT FROM pg_replication_slots AS standby
                      WHERE standby.slot_name = wanted.name AND standby.slot_type = 'physical' AND standby.active)
), judged AS MATERIALIZED (
    SELECT safe_wal_size, keep, slot.waits_for IS NOT NULL AS waits,
           current_setting('synchronous_standby_names') ~* '(^|[ ,("])([*]|pillarbox/log)($|[ ,)"])' AS is_synchronous,
           CASE
        WHEN $5::text IS NOT NULL THEN $5
        WHEN leaving THEN 'the log is being disabled'
        WHEN current_setting('wal_level') <> 'logical' THEN
            'wal_level is ' || current_setting('wal_level') || '; set it to logical and restart the server'
        WHEN wal_status IS NULL THEN 'the replication slot ' || slot || ' does not exist'
        WHEN wal_status NOT IN ('reserved', 'extended') THEN 'the replication slot ' || slot || ' is ' || wal_status
        WHEN keep < 0 THEN 'max_slot_wal_keep_size has no limit, so a slot that nobody reads could fill the disk; set one'
        WHEN safe_wal_size < keep / 4 THEN
            'less than a quarter of max_slot_wal_keep_size is left; the relay is behind, or a long transaction is open'
        WHEN standbys.missing IS NOT NULL THEN
            'the server holds the log back for standbys that are not connected; synchronized_standby_slots names ' || standbys.missing
        -- Walsenders of logical slots are no standbys. A role without pg_read_all_stats does not see their state.
        WHEN NOT $12 AND current_setting('server_version_num')::int < 170000 AND EXISTS (
            SELECT FROM pg_stat_replication AS sender
            WHERE coalesce(sender.state, 'streaming') = 'streaming' AND NOT EXISTS (
                SELECT FROM pg_replication_slots AS slot WHERE slot.active_pid = sender.pid AND slot.slot_type = 'logical'
            )
        ) THEN
            'the server has a standby, which before PostgreSQL 17 does not copy the slot; upgrade, or set source.accept_failover_loss = true'
        ELSE $11::text
        END AS closed
    FROM slot, standbys
)
UPDATE {schema}.outbox_log AS log
SET leader_until = clock_timestamp() + $3 * interval '1 second', confirmed = greatest(confirmed, $4::text::pg_lsn),
    -- The last beat was a second ago.
    confirmed_at = CASE WHEN $9::timestamptz IS NOT NULL THEN $9
                        WHEN $10 THEN clock_timestamp() - interval '1 second'
                        ELSE confirmed_at END,
    closed = coalesce(judged.closed, ''), system_id = coalesce($7, log.system_id)
FROM judged,
     (SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'local'
                        ELSE current_setting('synchronous_commit') END, true)) AS durable
WHERE log.leader = $1 AND log.epoch = $2 AND {schema}.outbox_log_timeline() = $8::text
  -- A server whose storage was set back has not come so far: the position is of other events.
  AND ($4::text IS NULL OR $4::text::pg_lsn <= pg_current_wal_insert_lsn())
RETURNING log.confirmed::text, log.leaving, judged.closed, (pg_current_wal_insert_lsn() - log.confirmed)::bigint,
          pg_current_wal_insert_lsn()::text, judged.waits, judged.is_synchronous,
          setval('{schema}.outbox_log_until'::regclass,
                 -- `leaving` once more: the row may have changed since it was judged.
                 CASE WHEN judged.closed IS NULL AND NOT log.leaving THEN ceil(date_part('epoch', clock_timestamp()) + $6)::bigint ELSE 0 END),
          greatest(date_part('epoch', clock_timestamp() - log.confirmed_at), 0), judged.safe_wal_size, judged.keep
