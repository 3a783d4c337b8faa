-- Sweep: deletes relays without a heartbeat for an hour.
DELETE FROM outbox_relay WHERE heartbeat_at < utc_timestamp(6) - INTERVAL 1 HOUR
