-- Unpark, shared: makes at most ?2 events due with one delivery parked on ?1 while another waits for something else, the oldest
-- first. Events that a relay holds now are left to the next call.
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
