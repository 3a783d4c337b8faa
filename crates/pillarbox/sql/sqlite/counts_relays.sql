-- Counts: the relays that have written a heartbeat.
SELECT id, host, started_at, heartbeat_at, in_flight, idle, configuration,
       heartbeat_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-15 seconds') AS alive
FROM outbox_relay ORDER BY started_at
