-- Lanes: the destinations as live relays see them.
SELECT relay_id, destination, paused, down, limited, down_since, probe_at, recovered_at, queued, sending,
       last_error, last_error_at
FROM outbox_lane
WHERE relay_id IN (SELECT id FROM outbox_relay WHERE heartbeat_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-15 seconds'))
ORDER BY relay_id, destination
