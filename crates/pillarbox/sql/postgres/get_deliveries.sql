-- Get: the stored deliveries of one event.
SELECT destination::text, status::text, attempts, next_attempt_at, delivered_at, error
FROM {schema}.outbox_delivery WHERE event_id = $1 ORDER BY destination
