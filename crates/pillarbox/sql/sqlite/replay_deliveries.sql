-- Replay: the destinations of new events that are meant for one of them. The others count as delivered, so only that one is sent.
-- ?1 ids of the new events, one for each destination, ?2 destinations, ?3 their statuses (JSON arrays).
INSERT INTO outbox_delivery (event_id, destination, status, next_attempt_at, delivered_at)
SELECT event.id, json_extract(?2, '$[' || given.key || ']'), json_extract(?3, '$[' || given.key || ']'),
       CASE json_extract(?3, '$[' || given.key || ']') WHEN 'pending' THEN event.next_attempt_at END,
       CASE json_extract(?3, '$[' || given.key || ']') WHEN 'delivered' THEN event.updated_at END
FROM json_each(?1) AS given JOIN outbox_event AS event ON event.id = given.value
