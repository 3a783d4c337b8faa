-- Settle: writes the deliveries of fan-outs that did not succeed at once. Delays count from the time at which the event was
-- settled, so that a delivery is due when its event is.
-- $1 event ids, $2 destinations, $3 statuses, $4 attempts, $5 seconds until due, $6 errors, $7 parked.
INSERT INTO {schema}.outbox_delivery AS delivery
    (event_id, destination, status, attempts, next_attempt_at, delivered_at, error, parked)
SELECT given.event_id, given.destination, given.status, given.attempts,
       CASE given.status WHEN 'pending' THEN event.updated_at + given.after * interval '1 second' END,
       CASE given.status WHEN 'delivered' THEN event.updated_at END, given.error, given.parked
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int[], $5::float8[], $6::text[], $7::boolean[])
    AS given (event_id, destination, status, attempts, after, error, parked)
JOIN {schema}.outbox_event AS event ON event.id = given.event_id
ON CONFLICT (event_id, destination) DO UPDATE
SET status = excluded.status, attempts = excluded.attempts, next_attempt_at = excluded.next_attempt_at,
    delivered_at = coalesce(delivery.delivered_at, excluded.delivered_at), error = excluded.error, parked = excluded.parked
