-- Fail: turns events into dead letters, with the reason ?2. Events that are being sent or were delivered stay. ?1 a JSON array
-- of ids; with ?3, events that have changed since then stay, too.
UPDATE outbox_event
SET status = 'failed', claims = 0, error_message = ?2, parked_on = NULL, claimed_by = NULL, next_attempt_at = NULL,
    updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE id IN (SELECT value FROM json_each(?1)) AND status = 'pending'
  AND (?3 IS NULL OR updated_at < ?3)
  AND NOT (parked_on IS NULL AND claimed_by IS NOT NULL AND next_attempt_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
RETURNING id
