-- Replay: the destinations of new events that are meant for one of them. The others count as delivered, so only that one is sent.
-- A claim looks up the deliveries of events that have changed since their emit. $1 ids of the new events, one for each
-- destination, $2 destinations, $3 their statuses.
WITH event AS (
    UPDATE {schema}.outbox_event SET updated_at = greatest(clock_timestamp(), created_at + interval '1 microsecond')
    WHERE id = ANY ($1::uuid[])
    RETURNING id, updated_at, next_attempt_at
)
INSERT INTO {schema}.outbox_delivery (event_id, destination, status, next_attempt_at, delivered_at)
SELECT event.id, given.destination, given.status,
       CASE given.status WHEN 'pending' THEN event.next_attempt_at END,
       CASE given.status WHEN 'delivered' THEN event.updated_at END
FROM unnest($1, $2::text[], $3::text[]) AS given (id, destination, status) JOIN event ON event.id = given.id
