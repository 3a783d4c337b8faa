-- Wal disable: drops the slot. It fails while somebody reads it. $1 the slot.
SELECT pg_drop_replication_slot($1)::text
