-- Retry: makes events due now, with their attempts reset. Events that are being sent or were delivered stay.
-- ?1 a JSON array of ids; with ?2, events that have changed since then stay, too.
UPDATE outbox_event
SET status = 'pending', attempts = 0, claims = 0, error_message = '', parked_on = NULL, claimed_by = NULL,
    next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE id IN (SELECT value FROM json_each(?1)) AND status <> 'delivered'
  AND (?2 IS NULL OR updated_at < ?2)
  AND NOT (status = 'pending' AND parked_on IS NULL AND claimed_by IS NOT NULL
           AND next_attempt_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
RETURNING id
