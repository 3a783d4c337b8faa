-- Sweep, first part: locks the events whose relays died too often while they sent nothing else. ?1 losses before an event is
-- failed. The error of these events is written by sweep.sql.
SELECT id, seq, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key, attempts, max_attempts,
       claims + (claimed_by IS NOT NULL) AS claims, created_at
FROM outbox_event FORCE INDEX (outbox_event_suspect)
WHERE claims >= 4 -- only suspects, by their index
  AND status = 'pending' AND parked_on IS NULL AND next_attempt_at <= utc_timestamp(6)
  AND claims + (claimed_by IS NOT NULL) >= ?1
FOR UPDATE SKIP LOCKED
