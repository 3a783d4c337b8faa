-- Counts: the relays that have written a heartbeat.
SELECT id, host, started_at, heartbeat_at, in_flight, idle, configuration,
       heartbeat_at > utc_timestamp(6) - INTERVAL 15 SECOND AS alive
FROM outbox_relay ORDER BY started_at
