-- Counts: the relays that have written a heartbeat.
SELECT id, host::text, started_at, heartbeat_at, in_flight, idle, configuration::text,
       heartbeat_at > clock_timestamp() - interval '15 seconds' AS alive
FROM {schema}.outbox_relay ORDER BY started_at
