-- Wal enable: creates the replication slot, which waits for all open transactions. $1 its name.
SELECT lsn::text FROM pg_create_logical_replication_slot($1, 'pgoutput')
