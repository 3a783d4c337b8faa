-- Claim with order = "aggregate": locks and reads the events of a page that are not blocked, unless another relay took them since.
-- ?1 a JSON array of seqs, ?2 losses from which on an event is left out. The columns are those of claim_due.sql.
SELECT id, event.seq, aggregate_type, aggregate_id, event_type, IF(octet_length(payload) <= 16384, payload, NULL) AS payload, headers,
       idempotency_key, attempts, max_attempts, claims, created_at, next_attempt_at, octet_length(payload) AS bytes,
       claims + (claimed_by IS NOT NULL) AS losses, claimed_by IS NULL AND updated_at = created_at AS fresh,
       CASE WHEN updated_at <> created_at OR attempts > 0 THEN (
           SELECT json_arrayagg(json_object(
                      'destination', destination, 'status', status, 'attempts', attempts, 'error', error, 'parked', parked,
                      'due_in', greatest(0, coalesce(timestampdiff(MICROSECOND, utc_timestamp(6), next_attempt_at), 0) / 1e6)))
           FROM outbox_delivery WHERE event_id = event.id) END AS deliveries
FROM json_table(?1, '$[*]' COLUMNS (seq BIGINT PATH '$')) AS free STRAIGHT_JOIN outbox_event AS event FORCE INDEX (PRIMARY) ON event.seq = free.seq
WHERE event.parked_on IS NULL AND event.next_attempt_at <= utc_timestamp(6)
  AND event.claims + (event.claimed_by IS NOT NULL) < ?2
FOR UPDATE SKIP LOCKED
