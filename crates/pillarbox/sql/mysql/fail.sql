-- Fail: turns events into dead letters, with the reason ?2. ?1 a JSON array of ids.
UPDATE json_table(?1, '$[*]' COLUMNS (id CHAR(32) CHARACTER SET utf8mb4 PATH '$')) AS asked
STRAIGHT_JOIN outbox_event AS event FORCE INDEX (outbox_event_id) ON event.id = unhex(asked.id)
SET event.status = 'failed', event.claims = 0, event.error_message = ?2, event.parked_on = NULL, event.claimed_by = NULL, event.next_attempt_at = NULL,
    event.updated_at = utc_timestamp(6)
