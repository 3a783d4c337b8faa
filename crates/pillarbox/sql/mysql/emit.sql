-- Emit: one statement for many events; emit_one.sql is for one event. The value is a JSON array of rows. seq follows their order, and
-- they share one time. A row whose key exists changes nothing; emit_written.sql returns the rows that were written.
-- An event with a delivery time in the past is due now.
INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key, max_attempts,
                          next_attempt_at)
SELECT unhex(given.id), given.aggregate_type, given.aggregate_id, given.event_type, given.payload, given.headers,
       given.idempotency_key, given.max_attempts,
       coalesce(greatest(CAST(given.deliver_at AS DATETIME(6)), utc_timestamp(6)), utc_timestamp(6))
FROM json_table(?, '$[*]' COLUMNS (
    id CHAR(32) CHARACTER SET utf8mb4 PATH '$[0]', aggregate_type VARCHAR(100) CHARACTER SET utf8mb4 PATH '$[1]',
    aggregate_id VARCHAR(100) CHARACTER SET utf8mb4 PATH '$[2]', event_type VARCHAR(255) CHARACTER SET utf8mb4 PATH '$[3]',
    payload LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]', headers LONGTEXT CHARACTER SET utf8mb4 PATH '$[5]',
    idempotency_key VARCHAR(255) CHARACTER SET utf8mb4 PATH '$[6]', max_attempts INTEGER PATH '$[7]',
    deliver_at CHAR(26) CHARACTER SET utf8mb4 PATH '$[8]')) AS given
ON DUPLICATE KEY UPDATE id = outbox_event.id
