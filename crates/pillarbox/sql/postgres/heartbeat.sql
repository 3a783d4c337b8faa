-- Heartbeat: this relay lives. $1 id, $2 host, $3 in flight, $4 idle.
INSERT INTO {schema}.outbox_relay AS relay (id, host, in_flight, idle) VALUES ($1, $2, $3, $4)
ON CONFLICT (id) DO UPDATE
SET heartbeat_at = clock_timestamp(), in_flight = excluded.in_flight, idle = excluded.idle
