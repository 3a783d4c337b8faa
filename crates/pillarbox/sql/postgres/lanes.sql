-- Lanes: how relays find their destinations.
SELECT relay_id, destination::text, paused, down, congested, queued, sending, last_error, last_error_at
FROM {schema}.outbox_lane
ORDER BY relay_id, destination COLLATE "C"
