-- Retry: the result for each event. ?1 a JSON array of ids, ?2 the ids among them that retry.sql has made due.
SELECT id, CASE WHEN id IN (SELECT value FROM json_each(?2)) THEN 'due' WHEN status = 'delivered' THEN 'delivered'
                ELSE 'being_sent' END AS answer
FROM outbox_event WHERE id IN (SELECT value FROM json_each(?1))
