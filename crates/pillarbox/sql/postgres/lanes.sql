-- Lanes: the destinations as live relays see them.
SELECT relay_id, destination::text, paused, down, limited, down_since, probe_at, recovered_at, queued, sending,
       last_error, last_error_at
FROM {schema}.outbox_lane
WHERE relay_id IN (SELECT id FROM {schema}.outbox_relay WHERE heartbeat_at > clock_timestamp() - interval '15 seconds')
ORDER BY relay_id, destination COLLATE "C"
