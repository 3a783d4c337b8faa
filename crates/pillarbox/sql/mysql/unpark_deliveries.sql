-- Unpark: unparks the deliveries of these events to ?2. ?1 a JSON array of ids.
UPDATE json_table(?1, '$[*]' COLUMNS (id CHAR(32) CHARACTER SET utf8mb4 PATH '$')) AS asked
STRAIGHT_JOIN outbox_delivery AS delivery FORCE INDEX (PRIMARY) ON delivery.event_id = unhex(asked.id)
SET delivery.parked = 0, delivery.next_attempt_at = utc_timestamp(6)
WHERE delivery.destination = ?2 AND delivery.parked = 1
