-- Settle: one statement for a whole batch, each row only if the lease still holds it.
-- ?1 a JSON array of [seq, token, change, attempts, seconds until due, parked on, error].
UPDATE json_table(?1, '$[*]' COLUMNS (
    seq BIGINT PATH '$[0]', token CHAR(32) CHARACTER SET utf8mb4 PATH '$[1]', verdict CHAR(7) CHARACTER SET utf8mb4 PATH '$[2]',
    attempts INTEGER PATH '$[3]', after DOUBLE PATH '$[4]', parked_on VARCHAR(255) CHARACTER SET utf8mb4 PATH '$[5]',
    error TEXT CHARACTER SET utf8mb4 PATH '$[6]')) AS settled
STRAIGHT_JOIN outbox_event AS event FORCE INDEX (PRIMARY) ON event.seq = settled.seq AND event.claimed_by = unhex(settled.token)
SET event.status = CASE settled.verdict WHEN 'deliver' THEN 'delivered' WHEN 'fail' THEN 'failed' ELSE 'pending' END,
    -- A relay that settles has survived the event, so its losses are reset. A release proves nothing.
    event.attempts = CASE settled.verdict WHEN 'release' THEN event.attempts ELSE settled.attempts END,
    event.claims = CASE settled.verdict WHEN 'release' THEN event.claims ELSE 0 END,
    event.next_attempt_at = CASE WHEN settled.verdict IN ('deliver', 'fail') THEN NULL
        ELSE utc_timestamp(6) + INTERVAL least(settled.after, 3e9) * 1e6 MICROSECOND END,
    event.claimed_by = NULL,
    event.parked_on = settled.parked_on,
    event.delivered_at = CASE settled.verdict WHEN 'deliver' THEN utc_timestamp(6) END,
    event.error_message = CASE settled.verdict WHEN 'release' THEN event.error_message ELSE settled.error END,
    event.updated_at = utc_timestamp(6)
WHERE event.status = 'pending'
