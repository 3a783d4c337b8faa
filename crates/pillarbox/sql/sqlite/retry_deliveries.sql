-- Retry: reopens deliveries. A destination that has received an event does not receive it again. ?1 a JSON array of ids.
UPDATE outbox_delivery
SET status = 'pending', attempts = 0, error = '', parked = 0, next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE event_id IN (SELECT value FROM json_each(?1)) AND status <> 'delivered'
