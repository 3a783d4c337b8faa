-- Sweep: fails events whose relays died too often while they sent nothing else.
-- ?1 losses before an event is failed, ?2 the error.
UPDATE outbox_event
SET status = 'failed', next_attempt_at = NULL, claimed_by = NULL, error_message = ?2,
    claims = claims + (claimed_by IS NOT NULL), updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE status = 'pending' AND parked_on IS NULL AND next_attempt_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
  AND claims >= 4 -- as in outbox_event_suspect
  AND claims + (claimed_by IS NOT NULL) >= ?1
RETURNING id, seq, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key, attempts, max_attempts,
          claims, created_at
