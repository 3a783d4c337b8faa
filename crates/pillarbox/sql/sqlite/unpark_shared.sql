-- Unpark, shared: events of which one delivery waits for ?1 while another waits for something else are due again, at most ?2,
-- the oldest first. What a relay has at this moment is left to the next time.
UPDATE outbox_event
SET parked_on = NULL, next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
    updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE id IN (
    SELECT delivery.event_id
    FROM outbox_delivery AS delivery CROSS JOIN outbox_event AS event ON event.id = delivery.event_id
    WHERE delivery.destination = ?1 AND delivery.parked AND event.status = 'pending' AND event.parked_on IS NOT ?1
      AND (event.claimed_by IS NULL OR event.next_attempt_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
    ORDER BY delivery.event_id
    LIMIT ?2
)
RETURNING id
