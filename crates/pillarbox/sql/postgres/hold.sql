-- Claim by lock: due events, oldest first, held by this transaction. $1 limit, $2 bytes, $3 and $4 the place after which to
-- begin. Nothing is written. Events that have lost a lease are left to a claim by lease, which counts losses. MATERIALIZED, as
-- in claim.sql. A payload beyond the limit of bytes is not detoasted, because only rows that the outer query returns are.
WITH due AS MATERIALIZED (
    SELECT id, seq, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key, attempts, max_attempts,
           created_at, updated_at, next_attempt_at,
           CASE WHEN pg_column_compression(payload) IS NULL THEN pg_column_size(payload)
                ELSE octet_length(payload::text) END AS bytes
    FROM {schema}.outbox_event
    WHERE status = 'pending' AND parked_on IS NULL AND next_attempt_at <= (SELECT clock_timestamp())
      AND (next_attempt_at, seq) > ($3, $4)
      AND claims = 0 AND claimed_by IS NULL
    ORDER BY next_attempt_at, seq
    LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
), placed AS (
    SELECT *, sum(bytes) OVER (ORDER BY next_attempt_at, seq ROWS UNBOUNDED PRECEDING) - bytes AS bytes_before FROM due
)
SELECT id, seq, aggregate_type, aggregate_id, event_type, payload::text, headers::text, idempotency_key, attempts,
       max_attempts, 0 AS claims, created_at, next_attempt_at AS due_at,
       -- An event that is unchanged since its emit has no deliveries, so they need not be looked up.
       CASE WHEN updated_at <> created_at THEN
           (SELECT jsonb_agg(jsonb_build_object(
                       'destination', destination, 'status', status, 'attempts', attempts, 'error', error, 'parked', parked,
                       'due_in', least(greatest(0, extract(epoch FROM next_attempt_at) - extract(epoch FROM clock_timestamp())), 1e9))
                   ORDER BY destination)
            FROM {schema}.outbox_delivery WHERE event_id = placed.id)::text END AS deliveries,
       updated_at = created_at AS fresh,
       -- The number of locked events. Those beyond the limit of bytes are free again when the transaction ends.
       (SELECT count(*) FROM due) AS locked
FROM placed
WHERE bytes_before < $2
ORDER BY next_attempt_at, seq
