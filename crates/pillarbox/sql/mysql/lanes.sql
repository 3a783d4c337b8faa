-- Lanes: the destinations as live relays see them.
SELECT relay_id, destination, paused, down, limited, down_since, probe_at, recovered_at, queued, sending,
       last_error, last_error_at
FROM outbox_lane
WHERE relay_id IN (SELECT id FROM outbox_relay WHERE heartbeat_at > utc_timestamp(6) - INTERVAL 15 SECOND)
ORDER BY relay_id, destination
