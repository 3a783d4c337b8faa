-- Release: gives dropped claims back at once, each only if its lease still holds the event. ?1 a JSON array of [id, token].
UPDATE json_table(?1, '$[*]' COLUMNS (id CHAR(32) CHARACTER SET utf8mb4 PATH '$[0]', token CHAR(32) CHARACTER SET utf8mb4 PATH '$[1]')) AS held
STRAIGHT_JOIN outbox_event AS event FORCE INDEX (outbox_event_id) ON event.id = unhex(held.id) AND event.claimed_by = unhex(held.token)
SET event.claimed_by = NULL, event.next_attempt_at = utc_timestamp(6), event.updated_at = utc_timestamp(6)
WHERE event.status = 'pending'
