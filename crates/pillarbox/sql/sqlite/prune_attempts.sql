-- Settle: deletes the oldest failed attempts beyond ?2 per event. ?1 a JSON array of ids.
DELETE FROM outbox_attempt
WHERE event_id IN (SELECT value FROM json_each(?1))
  AND number <= (SELECT max(number) FROM outbox_attempt AS newest WHERE newest.event_id = outbox_attempt.event_id) - ?2
