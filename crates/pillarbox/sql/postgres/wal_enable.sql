-- Wal enable: records the slot. $1 its name, which is also the publication's, $2 the position where it begins, $3 the largest event.
WITH key AS (
    INSERT INTO {schema}.outbox_log_key (size_limit, timeline) VALUES ($3, {schema}.outbox_log_timeline())
)
INSERT INTO {schema}.outbox_log (slot, publication, confirmed, system_id)
SELECT $1, $1, $2::text::pg_lsn, system_identifier::text FROM pg_control_system()
