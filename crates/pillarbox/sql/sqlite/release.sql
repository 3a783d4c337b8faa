-- Release: gives dropped claims back at once, each only if its lease still holds the event. ?1 a JSON array of [id, token].
UPDATE outbox_event
SET claimed_by = NULL, next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
    updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE status = 'pending' AND (id, claimed_by) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
