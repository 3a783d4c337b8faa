-- Wal disable: tells the leader to take no more events into the log, and lets no event into it. The gate is not enough: a heartbeat
-- that read the row before this may still open it. No event is as small as the limit, which only these commands change.
WITH key AS (UPDATE {schema}.outbox_log_key SET size_limit = -1)
UPDATE {schema}.outbox_log SET leaving = true
