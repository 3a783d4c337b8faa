-- Deletes the deliveries of deleted events. ?1 a JSON array of ids.
DELETE delivery
FROM json_table(?1, '$[*]' COLUMNS (id CHAR(32) CHARACTER SET utf8mb4 PATH '$')) AS asked
STRAIGHT_JOIN outbox_delivery AS delivery FORCE INDEX (PRIMARY) ON delivery.event_id = unhex(asked.id)
