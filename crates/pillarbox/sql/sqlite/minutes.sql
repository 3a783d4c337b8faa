-- Minutes: the results of destinations since ?1, as each relay reported them.
SELECT minute, destination, delivered, failed, given_up, latency, response
FROM outbox_figure
WHERE minute >= ?1
ORDER BY minute, destination
