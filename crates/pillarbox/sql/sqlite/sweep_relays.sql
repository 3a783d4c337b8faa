-- Sweep: deletes relays without a heartbeat for an hour.
DELETE FROM outbox_relay WHERE heartbeat_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 hour')
