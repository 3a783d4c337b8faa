-- Claim by lock, as hold.sql, where payloads are small: it need not sum up their bytes, so that rows are sent as they are
-- locked and copied nowhere. $1 limit, $2 the bytes of one payload, $3 and $4 the floor. A payload that is larger is left
-- out: then hold.sql is asked in the same transaction. Texts are made outside, because inside they would also be made of
-- what others have locked. Rows come in the order of the subquery; nothing depends on that.
SELECT id, seq, aggregate_type, aggregate_id, event_type,
       CASE WHEN CASE WHEN pg_column_compression(payload) IS NULL THEN pg_column_size(payload)
                      ELSE octet_length(payload::text) END <= $2 THEN payload::text END AS payload,
       headers::text, idempotency_key, attempts, max_attempts, 0 AS claims, created_at, next_attempt_at AS due_at,
       -- What was never written to since it was emitted has no deliveries, and need not be looked up.
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
