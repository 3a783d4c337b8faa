-- Retry: a destination that has an event already does not get it again. ?1 a JSON array of ids.
UPDATE outbox_delivery
SET status = 'pending', attempts = 0, error = '', parked = 0, next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE event_id IN (SELECT value FROM json_each(?1)) AND status <> 'delivered'
