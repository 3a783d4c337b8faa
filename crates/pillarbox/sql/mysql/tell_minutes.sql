-- Tell: writes the results of destinations per minute, as one relay currently knows them. ?1 the relay, ?2 minutes as JSON.
INSERT INTO outbox_figure (minute, relay_id, destination, delivered, failed, given_up, latency, response)
SELECT told.minute, told.relay_id, told.destination, told.delivered, told.failed, told.given_up, told.latency, told.response
FROM (
    SELECT CAST(replace(replace(result.at, 'T', ' '), 'Z', '') AS DATETIME(6)) AS minute, ?1 AS relay_id, result.destination,
           result.delivered, result.failed, result.given_up,
           json_extract(?2, concat('$[', result.place - 1, '].latency')) AS latency,
           json_extract(?2, concat('$[', result.place - 1, '].response')) AS response
    FROM json_table(?2, '$[*]' COLUMNS (
        place FOR ORDINALITY, at VARCHAR(40) CHARACTER SET utf8mb4 PATH '$.at',
        destination VARCHAR(255) CHARACTER SET utf8mb4 PATH '$.destination', delivered BIGINT PATH '$.delivered',
        failed BIGINT PATH '$.failed', given_up BIGINT PATH '$.given_up')) AS result
) AS told
ON DUPLICATE KEY UPDATE
    delivered = told.delivered, failed = told.failed, given_up = told.given_up, latency = told.latency,
    response = told.response
