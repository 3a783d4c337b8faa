-- Spill: inserts events of the log, in the order of their commits, with their verdicts or with the lease of the relay that sends
-- them. An event that exists already was inserted by a leader that died before it stored its position. Returns the ids of the others.
-- $1 ids, $2 aggregate types, $3 aggregate ids, $4 event types, $5 payloads, $6 headers, $7 attempts, $8 limits of attempts,
-- $9 times of the emits, $10 changes, $11 seconds until due, $12 parked on, $13 errors, $14 tokens of leases.
INSERT INTO {schema}.outbox_event
    (id, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key, attempts, max_attempts, created_at, status,
     next_attempt_at, parked_on, delivered_at, error_message, claimed_by, updated_at)
SELECT given.id, given.aggregate_type, given.aggregate_id, given.event_type, given.payload::jsonb, given.headers::jsonb,
       given.id::text, given.attempts, given.max_attempts, given.created_at,
       CASE given.change WHEN 'deliver' THEN 'delivered' WHEN 'fail' THEN 'failed' ELSE 'pending' END,
       CASE WHEN given.change NOT IN ('deliver', 'fail') THEN clock.now + given.after * interval '1 second' END,
       given.parked_on, CASE given.change WHEN 'deliver' THEN clock.now END, given.error, given.token, clock.now
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::int[], $8::int[], $9::timestamptz[],
            $10::text[], $11::float8[], $12::text[], $13::text[], $14::uuid[]) WITH ORDINALITY
    AS given (id, aggregate_type, aggregate_id, event_type, payload, headers, attempts, max_attempts, created_at, change, after,
              parked_on, error, token, place),
     (SELECT clock_timestamp() AS now) AS clock
ORDER BY given.place
ON CONFLICT DO NOTHING
RETURNING id
