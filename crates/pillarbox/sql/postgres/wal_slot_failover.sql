-- Wal enable, since version 17: as wal_slot.sql, for a slot that standbys copy. $1 its name.
SELECT lsn::text FROM pg_create_logical_replication_slot($1, 'pgoutput', false, false, true)
