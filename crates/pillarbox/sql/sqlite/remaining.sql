-- Returns the number of due events that no relay holds.
SELECT count(*) AS remaining FROM outbox_event
WHERE status = 'pending' AND parked_on IS NULL AND next_attempt_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
