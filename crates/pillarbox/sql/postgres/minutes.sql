-- Minutes: what destinations did since $1, as each relay has told it.
SELECT minute, destination::text, delivered, failed, given_up, latency::text
FROM {schema}.outbox_figure
WHERE minute >= $1
ORDER BY minute, destination COLLATE "C"
