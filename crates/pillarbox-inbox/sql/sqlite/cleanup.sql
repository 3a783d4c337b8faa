-- Deletes a batch of events that were recorded at least ?1 seconds ago.
DELETE FROM inbox_event WHERE (consumer, id) IN (
    SELECT consumer, id FROM inbox_event
    WHERE received_at <= strftime('%Y-%m-%d %H:%M:%f', 'now', '-' || ?1 || ' seconds')
    ORDER BY received_at LIMIT ?2
)
