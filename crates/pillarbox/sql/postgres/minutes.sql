-- Minutes: the results of destinations since $1, as each relay reported them.
SELECT minute, destination::text, delivered, failed, given_up, latency::text, response::text
FROM {schema}.outbox_figure
WHERE minute >= $1
ORDER BY minute, destination COLLATE "C"
