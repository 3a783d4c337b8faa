-- Wal status: the log, its slot, its leader and its gate. No row if the log is not enabled. The secret is not in it.
SELECT log.slot::text, log.publication::text,
       ARRAY(SELECT published.schemaname || '.' || published.tablename FROM pg_publication_tables AS published
             WHERE published.pubname = log.publication ORDER BY 1) AS tables,
       log.enabled_at, log.epoch, log.leader, log.leader_until,
       log.leader IS NOT NULL AND log.leader_until > clock_timestamp() AS is_led,
       log.confirmed::text, greatest(pg_current_wal_insert_lsn() - log.confirmed, 0)::bigint AS undelivered, log.closed, log.leaving,
       key.size_limit, key.timeline = {schema}.outbox_log_timeline() AS is_here,
       slot.slot_name IS NOT NULL AS has_slot, coalesce(slot.active, false) AS is_active, slot.wal_status, slot.safe_wal_size,
       (pg_current_wal_insert_lsn() - slot.restart_lsn)::bigint AS retained,
       -- Since version 17.
       (to_jsonb(slot) ->> 'failover')::boolean AS fails_over,
       pg_sequence_last_value('{schema}.outbox_log_until') > date_part('epoch', clock_timestamp()) AS is_open
FROM {schema}.outbox_log AS log
LEFT JOIN {schema}.outbox_log_key AS key ON true
LEFT JOIN pg_replication_slots AS slot ON slot.slot_name = log.slot AND slot.database = current_database()
