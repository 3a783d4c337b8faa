-- Settle: deletes the oldest failed attempts beyond ?2 per event. ?1 a JSON array of ids.
DELETE attempt
FROM (SELECT unhex(asked.id) AS event_id,
             (SELECT max(number) FROM outbox_attempt AS newest WHERE newest.event_id = unhex(asked.id)) - ?2 AS until
      FROM json_table(?1, '$[*]' COLUMNS (id CHAR(32) CHARACTER SET utf8mb4 PATH '$')) AS asked LIMIT 1000000) AS kept
STRAIGHT_JOIN outbox_attempt AS attempt FORCE INDEX (PRIMARY) ON attempt.event_id = kept.event_id AND attempt.number <= kept.until
