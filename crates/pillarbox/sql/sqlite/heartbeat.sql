-- Heartbeat: records that this relay is alive. ?1 id, ?2 host, ?3 in flight, ?4 idle, ?5 configuration.
INSERT INTO outbox_relay (id, host, in_flight, idle, configuration) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (id) DO UPDATE
SET heartbeat_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), in_flight = excluded.in_flight, idle = excluded.idle
