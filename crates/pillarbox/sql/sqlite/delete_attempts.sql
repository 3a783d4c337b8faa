-- Deletes the failed attempts of deleted events. ?1 a JSON array of ids.
DELETE FROM outbox_attempt WHERE event_id IN (SELECT value FROM json_each(?1))
