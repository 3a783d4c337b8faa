-- Unpark: unparks the deliveries of these events to ?2. ?1 a JSON array of ids.
UPDATE outbox_delivery
SET parked = 0, next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE event_id IN (SELECT value FROM json_each(?1)) AND destination = ?2 AND parked
