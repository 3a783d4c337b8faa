-- Claim, first part: locks and reads due events, oldest first. ?1 limit, ?2 losses from which on an event is left out, ?3 and ?4 the
-- place after which to begin. The index gives the order: a sort would lock every due event. InnoDB does not use the comparison of
-- pairs for an index, so the place is written as two ranges. Large payloads are read by claim_read.sql, once it is known which of
-- the events are taken. Nothing is stored about the deliveries of an event that was not changed since its emit.
SELECT id, seq, aggregate_type, aggregate_id, event_type, IF(octet_length(payload) <= 16384, payload, NULL) AS payload, headers,
       idempotency_key, attempts, max_attempts, claims, created_at, next_attempt_at, octet_length(payload) AS bytes,
       claims + (claimed_by IS NOT NULL) AS losses, claimed_by IS NULL AND updated_at = created_at AS fresh,
       CASE WHEN updated_at <> created_at OR attempts > 0 THEN (
           SELECT json_arrayagg(json_object(
                      'destination', destination, 'status', status, 'attempts', attempts, 'error', error, 'parked', parked,
                      'due_in', greatest(0, coalesce(timestampdiff(MICROSECOND, utc_timestamp(6), next_attempt_at), 0) / 1e6)))
           FROM outbox_delivery WHERE event_id = event.id) END AS deliveries
FROM outbox_event AS event FORCE INDEX (outbox_event_due)
WHERE parked_on IS NULL AND next_attempt_at <= utc_timestamp(6)
  AND (next_attempt_at > ?3 OR (next_attempt_at = ?3 AND seq > ?4))
  AND claims + (claimed_by IS NOT NULL) < ?2
ORDER BY next_attempt_at, seq
LIMIT ?1
FOR UPDATE SKIP LOCKED
