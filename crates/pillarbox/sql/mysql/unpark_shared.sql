-- Unpark, shared: locks at most ?2 events with one delivery parked on ?1 while another waits for something else, the oldest
-- first. Events that a relay holds now are left to the next call.
SELECT event.id
FROM outbox_delivery AS delivery FORCE INDEX (outbox_delivery_parked)
STRAIGHT_JOIN outbox_event AS event FORCE INDEX (outbox_event_id) ON event.id = delivery.event_id
WHERE delivery.destination = ?1 AND delivery.parked = 1 AND event.status = 'pending'
  AND NOT event.parked_on <=> ?1
  AND (event.claimed_by IS NULL OR event.next_attempt_at <= utc_timestamp(6))
ORDER BY delivery.event_id
LIMIT ?2
FOR UPDATE SKIP LOCKED
