-- Wal disable: a position behind every event in the log, and a message behind it, so that a reader that has read everything passes it.
SELECT pg_current_wal_insert_lsn()::text, pg_logical_emit_message(true, 'pillarbox-barrier', '')::text
