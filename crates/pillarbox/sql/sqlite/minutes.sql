-- Minutes: what destinations did since ?1, as each relay has told it.
SELECT minute, destination, delivered, failed, given_up, latency
FROM outbox_figure
WHERE minute >= ?1
ORDER BY minute, destination
