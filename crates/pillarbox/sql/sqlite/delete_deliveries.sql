-- Deletes the deliveries of deleted events. ?1 a JSON array of ids.
DELETE FROM outbox_delivery WHERE event_id IN (SELECT value FROM json_each(?1))
