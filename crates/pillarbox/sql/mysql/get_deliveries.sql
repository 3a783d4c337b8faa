-- Get: the stored deliveries of one event.
SELECT destination, status, attempts, next_attempt_at, delivered_at, error
FROM outbox_delivery WHERE event_id = ?1 ORDER BY destination
