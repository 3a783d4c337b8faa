-- Renew and settle: locks the events that their leases still hold, and returns their ids. ?1 a JSON array of [id, token].
SELECT event.id
FROM json_table(?1, '$[*]' COLUMNS (id CHAR(32) CHARACTER SET utf8mb4 PATH '$[0]', token CHAR(32) CHARACTER SET utf8mb4 PATH '$[1]')) AS held
STRAIGHT_JOIN outbox_event AS event FORCE INDEX (outbox_event_id) ON event.id = unhex(held.id) AND event.claimed_by = unhex(held.token)
WHERE event.status = 'pending'
FOR UPDATE
