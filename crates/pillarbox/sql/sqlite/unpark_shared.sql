-- Unpark, shared: events that wait for ?1, and for ?3, too, are due again, at most ?2.
UPDATE outbox_event
SET parked_on = NULL, next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
    updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE seq IN (
    SELECT seq FROM outbox_event AS event
    WHERE parked_on = ?1 AND status = 'pending'
      AND EXISTS (SELECT 1 FROM outbox_delivery
                  WHERE event_id = event.id AND destination = ?3 AND status = 'pending')
    ORDER BY next_attempt_at, seq
    LIMIT ?2
)
