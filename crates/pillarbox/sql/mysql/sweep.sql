-- Sweep, second part: fails events whose relays died too often. ?1 a JSON array of ids, ?2 the error.
UPDATE json_table(?1, '$[*]' COLUMNS (id CHAR(32) CHARACTER SET utf8mb4 PATH '$')) AS asked
STRAIGHT_JOIN outbox_event AS event FORCE INDEX (outbox_event_id) ON event.id = unhex(asked.id)
SET event.status = 'failed', event.next_attempt_at = NULL, event.error_message = ?2, event.claims = event.claims + (event.claimed_by IS NOT NULL),
    event.claimed_by = NULL, event.updated_at = utc_timestamp(6)
