-- Wal disable: whether somebody reads the slot, whom $2 ends. No row if the slot is gone. $1 the slot.
SELECT active_pid IS NOT NULL, CASE WHEN $2 THEN pg_terminate_backend(active_pid) END
FROM pg_replication_slots
WHERE slot_name = $1 AND database = current_database()
