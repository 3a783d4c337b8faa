-- Tell: writes a relay's view of its destinations. ?1 the relay, ?2 lanes as JSON.
INSERT INTO outbox_lane (relay_id, destination, paused, down, congested, queued, sending, last_error, last_error_at)
SELECT told.relay_id, told.destination, told.paused, told.down, told.congested, told.queued, told.sending, told.last_error,
       told.last_error_at
FROM (
    SELECT ?1 AS relay_id, lane.destination, lane.paused, lane.down, lane.congested, lane.queued, lane.sending, lane.last_error,
           CAST(replace(replace(lane.last_error_at, 'T', ' '), 'Z', '') AS DATETIME(6)) AS last_error_at
    FROM json_table(?2, '$[*]' COLUMNS (
        destination VARCHAR(255) CHARACTER SET utf8mb4 PATH '$.destination', paused BOOLEAN PATH '$.paused',
        down BOOLEAN PATH '$.down', congested BOOLEAN PATH '$.congested', queued BIGINT PATH '$.queued',
        sending BIGINT PATH '$.sending', last_error TEXT CHARACTER SET utf8mb4 PATH '$.last_error',
        last_error_at VARCHAR(40) CHARACTER SET utf8mb4 PATH '$.last_error_at')) AS lane
) AS told
ON DUPLICATE KEY UPDATE
    paused = told.paused, down = told.down, congested = told.congested, queued = told.queued, sending = told.sending,
    last_error = told.last_error, last_error_at = told.last_error_at
