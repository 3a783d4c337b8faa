-- Unpark: makes these events due if they are parked on ?1. ?2 a JSON array of ids.
UPDATE outbox_event
SET parked_on = NULL, next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
    updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE id IN (SELECT value FROM json_each(?2)) AND parked_on = ?1 AND status = 'pending'
RETURNING id
