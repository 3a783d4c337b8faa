-- Unpark, shared: events of which one delivery waits for ?1 while another waits for something else are due again, at most ?2.
-- What a relay has at this moment is left to the next time.
UPDATE outbox_event
SET parked_on = NULL, next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
    updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE id IN (SELECT event_id FROM outbox_delivery WHERE destination = ?1 AND parked LIMIT ?2)
  AND status = 'pending' AND parked_on IS NOT ?1
  AND (claimed_by IS NULL OR next_attempt_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
RETURNING id
