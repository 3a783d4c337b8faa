-- Claim: due events, oldest first, by a lease. $1 limit, $2 bytes, $3 seconds of the lease, $4 token,
-- $5 losses before an event is a suspect, $6 losses from which on it is left out, $7 and $8 the place after which to begin.
-- MATERIALIZED, because a subquery with LIMIT may run twice and would then lock twice as many rows. The clock is read in a
-- subquery, here and elsewhere, because a volatile function cannot end the walk through an index.
WITH due AS MATERIALIZED (
    SELECT id, next_attempt_at, seq,
           -- The size of an uncompressed payload is known without decompressing it. A compressed one may be 100 times larger.
           CASE WHEN pg_column_compression(payload) IS NULL THEN pg_column_size(payload)
                ELSE octet_length(payload::text) END AS bytes,
           claims + (claimed_by IS NOT NULL)::int AS losses
    FROM {schema}.outbox_event
    WHERE status = 'pending' AND parked_on IS NULL AND next_attempt_at <= (SELECT clock_timestamp())
      AND (next_attempt_at, seq) > ($7, $8)
      AND claims + (claimed_by IS NOT NULL)::int < $6
    ORDER BY next_attempt_at, seq
    LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
), classed AS (
    SELECT due.*, greatest(losses, $5 - 1) AS class,
           first_value(greatest(losses, $5 - 1)) OVER (ORDER BY next_attempt_at, seq) AS first_class
    FROM due
), placed AS (
    SELECT id, next_attempt_at AS due_at, losses, class, row_number() OVER line AS place,
           sum(bytes) OVER line - bytes AS bytes_before
    FROM classed
    WHERE class = first_class
    WINDOW line AS (ORDER BY next_attempt_at, seq ROWS UNBOUNDED PRECEDING)
), picked AS (
    -- A suspect is claimed with events that have as many losses: 64 of them, then 8, then one.
    SELECT id, due_at, losses FROM placed
    WHERE place = 1 OR (bytes_before < $2 AND (class < $5 OR place <= 64 >> least(3 * (class - $5), 30)))
)
UPDATE {schema}.outbox_event AS event
SET claimed_by = $4,
    -- For an event that is sent alone, a loss counts only after its relay reported that nothing else is sent: blame.sql.
    claims = picked.losses - (picked.losses >= $5 + 2)::int,
    next_attempt_at = clock_timestamp() + $3 * interval '1 second',
    updated_at = clock_timestamp()
FROM picked, (SELECT set_config('synchronous_commit', 'off', true)) AS a_lost_claim_is_no_loss
WHERE event.id = picked.id
RETURNING event.id, event.seq, event.aggregate_type, event.aggregate_id, event.event_type, event.payload::text,
          event.headers::text, event.idempotency_key, event.attempts, event.max_attempts, picked.losses AS claims,
          event.created_at, picked.due_at,
          (SELECT jsonb_agg(jsonb_build_object(
                      'destination', destination, 'status', status, 'attempts', attempts, 'error', error, 'parked', parked,
                      'due_in', least(greatest(0, extract(epoch FROM next_attempt_at) - extract(epoch FROM clock_timestamp())), 1e9))
                  ORDER BY destination)
           FROM {schema}.outbox_delivery WHERE event_id = event.id)::text AS deliveries
