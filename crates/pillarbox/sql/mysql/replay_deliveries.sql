-- Replay: the destinations of new events that are meant for one of them. The others count as delivered, so only that one is sent.
-- A claim looks up the deliveries of events that have changed since their emit. ?1 ids of the new events, one for each
-- destination, ?2 destinations, ?3 their statuses (JSON arrays).
UPDATE json_table(?1, '$[*]' COLUMNS (id CHAR(32) CHARACTER SET utf8mb4 PATH '$')) AS given
STRAIGHT_JOIN outbox_event AS event FORCE INDEX (outbox_event_id) ON event.id = unhex(given.id)
SET event.updated_at = greatest(utc_timestamp(6), event.created_at + INTERVAL 1 MICROSECOND);
INSERT INTO outbox_delivery (event_id, destination, status, next_attempt_at, delivered_at)
SELECT event.id, given.destination, given.status,
       CASE given.status WHEN 'pending' THEN event.next_attempt_at END,
       CASE given.status WHEN 'delivered' THEN event.updated_at END
FROM (
    SELECT unhex(asked.id) AS id, json_unquote(json_extract(?2, concat('$[', asked.place - 1, ']'))) AS destination,
           json_unquote(json_extract(?3, concat('$[', asked.place - 1, ']'))) AS status
    FROM json_table(?1, '$[*]' COLUMNS (place FOR ORDINALITY, id CHAR(32) CHARACTER SET utf8mb4 PATH '$')) AS asked
) AS given
STRAIGHT_JOIN outbox_event AS event FORCE INDEX (outbox_event_id) ON event.id = given.id
