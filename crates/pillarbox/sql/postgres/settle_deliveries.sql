-- Settle: the destinations of fan-outs that did not succeed at once.
-- $1 event ids, $2 destinations, $3 statuses, $4 attempts, $5 seconds until due, $6 errors.
INSERT INTO {schema}.outbox_delivery AS delivery
    (event_id, destination, status, attempts, next_attempt_at, delivered_at, error)
SELECT event_id, destination, status, attempts,
       CASE status WHEN 'pending' THEN clock_timestamp() + after * interval '1 second' END,
       CASE status WHEN 'delivered' THEN clock_timestamp() END, error
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int[], $5::float8[], $6::text[])
    AS given (event_id, destination, status, attempts, after, error)
ON CONFLICT (event_id, destination) DO UPDATE
SET status = excluded.status, attempts = excluded.attempts, next_attempt_at = excluded.next_attempt_at,
    delivered_at = coalesce(delivery.delivered_at, excluded.delivered_at), error = excluded.error
