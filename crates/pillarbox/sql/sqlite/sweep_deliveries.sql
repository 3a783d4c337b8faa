-- Sweep: the deliveries of events that were given up wait for nothing any more. ?1 a JSON array of ids.
UPDATE outbox_delivery SET parked = 0
WHERE event_id IN (SELECT value FROM json_each(?1)) AND parked
