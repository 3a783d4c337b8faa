-- Fail and sweep: fails the open deliveries of failed events. ?1 a JSON array of ids, ?2 the reason.
UPDATE json_table(?1, '$[*]' COLUMNS (id CHAR(32) CHARACTER SET utf8mb4 PATH '$')) AS asked
STRAIGHT_JOIN outbox_delivery AS delivery FORCE INDEX (PRIMARY) ON delivery.event_id = unhex(asked.id)
SET delivery.status = 'failed', delivery.error = ?2, delivery.next_attempt_at = NULL, delivery.parked = 0
WHERE delivery.status = 'pending'
