-- Lanes: the destinations as live relays see them.
SELECT relay_id, destination, paused, down, congested, queued, sending, last_error, last_error_at
FROM outbox_lane
WHERE relay_id IN (SELECT id FROM outbox_relay WHERE heartbeat_at > utc_timestamp(6) - INTERVAL 15 SECOND)
ORDER BY relay_id, destination
