-- Settle: adds the attempts of this round, numbered after the existing ones.
-- ?1 a JSON array of [event id, destination, milliseconds, status code, error, response, position within the event,
-- whether it succeeded (0 or 1)].
INSERT INTO outbox_attempt (event_id, number, destination, took_ms, status_code, error, answer, delivered)
SELECT unhex(tried.event_id),
       coalesce((SELECT max(number) FROM outbox_attempt AS before_it WHERE before_it.event_id = unhex(tried.event_id)), 0) + tried.place,
       tried.destination, tried.took_ms, tried.status_code, tried.error, tried.answer, tried.delivered
FROM json_table(?1, '$[*]' COLUMNS (
    event_id CHAR(32) CHARACTER SET utf8mb4 PATH '$[0]', destination VARCHAR(255) CHARACTER SET utf8mb4 PATH '$[1]',
    took_ms BIGINT PATH '$[2]', status_code INTEGER PATH '$[3]', error TEXT CHARACTER SET utf8mb4 PATH '$[4]',
    answer TEXT CHARACTER SET utf8mb4 PATH '$[5]', place INTEGER PATH '$[6]', delivered TINYINT PATH '$[7]')) AS tried
