-- Tell: writes a relay's view of its destinations. ?1 the relay, ?2 lanes as JSON.
INSERT INTO outbox_lane
    (relay_id, destination, paused, down, limited, down_since, probe_at, recovered_at, queued, sending, last_error, last_error_at)
SELECT told.relay_id, told.destination, told.paused, told.down, told.limited, told.down_since, told.probe_at, told.recovered_at,
       told.queued, told.sending, told.last_error, told.last_error_at
FROM (
    SELECT ?1 AS relay_id, lane.destination, lane.paused, lane.down, lane.limited,
           CAST(replace(replace(lane.down_since, 'T', ' '), 'Z', '') AS DATETIME(6)) AS down_since,
           CAST(replace(replace(lane.probe_at, 'T', ' '), 'Z', '') AS DATETIME(6)) AS probe_at,
           CAST(replace(replace(lane.recovered_at, 'T', ' '), 'Z', '') AS DATETIME(6)) AS recovered_at,
           lane.queued, lane.sending, lane.last_error,
           CAST(replace(replace(lane.last_error_at, 'T', ' '), 'Z', '') AS DATETIME(6)) AS last_error_at
    FROM json_table(?2, '$[*]' COLUMNS (
        destination VARCHAR(255) CHARACTER SET utf8mb4 PATH '$.destination', paused BOOLEAN PATH '$.paused',
        down BOOLEAN PATH '$.down', limited BOOLEAN PATH '$.limited',
        down_since VARCHAR(40) CHARACTER SET utf8mb4 PATH '$.down_since',
        probe_at VARCHAR(40) CHARACTER SET utf8mb4 PATH '$.probe_at',
        recovered_at VARCHAR(40) CHARACTER SET utf8mb4 PATH '$.recovered_at', queued BIGINT PATH '$.queued',
        sending BIGINT PATH '$.sending', last_error TEXT CHARACTER SET utf8mb4 PATH '$.last_error',
        last_error_at VARCHAR(40) CHARACTER SET utf8mb4 PATH '$.last_error_at')) AS lane
) AS told
ON DUPLICATE KEY UPDATE
    paused = told.paused, down = told.down, limited = told.limited, down_since = told.down_since, probe_at = told.probe_at,
    recovered_at = told.recovered_at, queued = told.queued, sending = told.sending, last_error = told.last_error,
    last_error_at = told.last_error_at
