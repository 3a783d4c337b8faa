-- Retry: reopens deliveries. A destination that has received an event does not receive it again. ?1 a JSON array of ids.
UPDATE json_table(?1, '$[*]' COLUMNS (id CHAR(32) CHARACTER SET utf8mb4 PATH '$')) AS asked
STRAIGHT_JOIN outbox_delivery AS delivery FORCE INDEX (PRIMARY) ON delivery.event_id = unhex(asked.id)
SET delivery.status = 'pending', delivery.attempts = 0, delivery.error = '', delivery.parked = 0, delivery.next_attempt_at = utc_timestamp(6)
WHERE delivery.status <> 'delivered'
