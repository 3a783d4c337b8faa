-- Heartbeat: records that this relay is alive. ?1 id, ?2 host, ?3 in flight, ?4 idle, ?5 configuration.
INSERT INTO outbox_relay (id, host, in_flight, idle, configuration) VALUES (?1, ?2, ?3, ?4, ?5)
ON DUPLICATE KEY UPDATE heartbeat_at = utc_timestamp(6), in_flight = ?3, idle = ?4
