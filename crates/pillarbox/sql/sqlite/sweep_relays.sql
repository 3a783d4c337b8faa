-- Sweep: relays that have not said for an hour that they live are forgotten.
DELETE FROM outbox_relay WHERE heartbeat_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 hour')
