-- Wal status: the log, its slot, its leader and its gate. No row if the log is not enabled. The secret is not in it. It also works on a
-- standby, which may have a copy of the slot. `slot.*` is the row: `slot` alone is the column of the log.
SELECT log.slot::text, log.publication::text,
       ARRAY(SELECT published.schemaname || '.' || published.tablename FROM pg_publication_tables AS published
             WHERE published.pubname = log.publication ORDER BY 1) AS tables,
       log.enabled_at, log.epoch, log.leader, log.leader_until,
       log.leader IS NOT NULL AND log.leader_until > clock_timestamp() AS is_led,
       log.confirmed::text, log.confirmed_at, greatest(date_part('epoch', clock_timestamp() - log.confirmed_at), 0) AS behind,
       greatest(server.position - log.confirmed, 0)::bigint AS undelivered, log.closed, log.leaving,
       key.size_limit, CASE WHEN NOT pg_is_in_recovery() THEN key.timeline = {schema}.outbox_log_timeline() END AS is_here,
       slot.slot_name IS NOT NULL AS has_slot, coalesce(slot.active, false) AS is_active, slot.wal_status, slot.safe_wal_size,
       greatest(server.position - slot.restart_lsn, 0)::bigint AS retained,
       slot.confirmed_flush_lsn::text AS flushed,
       -- A leader that streams moves both, and they are not read at one moment.
       NOT pg_is_in_recovery() AND coalesce(NOT slot.active AND slot.confirmed_flush_lsn > log.confirmed, false) AS has_moved, coalesce(slot.temporary, false) AS is_temporary,
       -- Since version 17.
       (to_jsonb(slot.*) ->> 'failover')::boolean AS fails_over, (to_jsonb(slot.*) ->> 'synced')::boolean AS is_synced,
       to_jsonb(slot.*) ->> 'invalidation_reason' AS invalidation, standbys.named, standbys.absent, standbys.idle,
       -- As in log_slot.sql.
       current_setting('synchronous_standby_names') ~* '(^|[ ,("])([*]|pillarbox/log)($|[ ,)"])' AS is_synchronous,
       pg_sequence_last_value('{schema}.outbox_log_until') > date_part('epoch', clock_timestamp()) AS is_open
FROM {schema}.outbox_log AS log
LEFT JOIN {schema}.outbox_log_key AS key ON true
LEFT JOIN pg_replication_slots AS slot ON slot.slot_name = log.slot AND slot.database = current_database(),
LATERAL (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END AS position) AS server,
LATERAL (
    SELECT string_agg(wanted.name, ', ') AS named,
           string_agg(wanted.name, ', ') FILTER (WHERE standby.slot_name IS NULL) AS absent,
           string_agg(wanted.name, ', ') FILTER (WHERE NOT standby.active) AS idle
    FROM regexp_split_to_table(nullif(translate(current_setting('synchronized_standby_slots', true), '" ', ''), ''), ',') AS wanted (name)
    LEFT JOIN pg_replication_slots AS standby ON standby.slot_name = wanted.name AND standby.slot_type = 'physical'
) AS standbys
