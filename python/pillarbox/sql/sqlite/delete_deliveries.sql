-- With its event goes what is kept of its destinations. ?1 a JSON array of ids.
DELETE FROM outbox_delivery WHERE event_id IN (SELECT value FROM json_each(?1))
