-- Deletes a batch of events that were recorded at least the given number of seconds ago.
DELETE FROM inbox_event
WHERE received_at <= utc_timestamp(6) - INTERVAL ? SECOND
ORDER BY received_at LIMIT ?
