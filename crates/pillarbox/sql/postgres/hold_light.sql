-- Claim by lock, as hold.sql, for small payloads: their bytes need not be summed up, so rows are sent as they are locked and
-- are not copied. $1 limit, $2 the maximum bytes of one payload, $3 and $4 the place after which to begin. A larger payload is
-- returned as NULL; then hold.sql runs in the same transaction. Values are converted to text in the outer query; inside, rows
-- that others have locked would be converted, too. Rows arrive in the order of the subquery; nothing depends on that.
SELECT id, seq, aggregate_type, aggregate_id, event_type,
       CASE WHEN CASE WHEN pg_column_compression(payload) IS NULL THEN pg_column_size(payload)
                      ELSE octet_length(payload::text) END <= $2 THEN payload::text END AS payload,
       headers::text, idempotency_key, attempts, max_attempts, 0 AS claims, created_at, next_attempt_at AS due_at,
       -- An event that is unchanged since its emit has no deliveries, so they need not be looked up.
       CASE WHEN updated_at <> created_at THEN
           (SELECT jsonb_agg(jsonb_build_object(
                       'destination', destination, 'status', status, 'attempts', attempts, 'error', error, 'parked', parked,
                       'due_in', least(greatest(0, extract(epoch FROM next_attempt_at) - extract(epoch FROM clock_timestamp())), 1e9))
                   ORDER BY destination)
            FROM {schema}.outbox_delivery WHERE event_id = event.id)::text END AS deliveries,
       updated_at = created_at AS fresh
FROM (
    SELECT id, seq, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key, attempts, max_attempts,
           created_at, updated_at, next_attempt_at
    FROM {schema}.outbox_event
    WHERE status = 'pending' AND parked_on IS NULL AND next_attempt_at <= (SELECT clock_timestamp())
      AND (next_attempt_at, seq) > ($3, $4)
      AND claims = 0 AND claimed_by IS NULL
    ORDER BY next_attempt_at, seq
    LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
) AS event
