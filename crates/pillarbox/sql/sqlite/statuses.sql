-- Retry: the statuses of these events. ?1 a JSON array of ids.
SELECT id, status FROM outbox_event WHERE id IN (SELECT value FROM json_each(?1))
