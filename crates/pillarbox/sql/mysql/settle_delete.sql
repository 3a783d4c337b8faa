-- Settle with on_delivered = "delete": deletes delivered events. ?1 a JSON array of [seq, token].
DELETE event
FROM json_table(?1, '$[*]' COLUMNS (seq BIGINT PATH '$[0]', token CHAR(32) CHARACTER SET utf8mb4 PATH '$[1]')) AS settled
STRAIGHT_JOIN outbox_event AS event FORCE INDEX (PRIMARY) ON event.seq = settled.seq AND event.claimed_by = unhex(settled.token)
WHERE event.status = 'pending'
