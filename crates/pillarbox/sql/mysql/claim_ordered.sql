-- Claim with order = "aggregate", first part: a page of due events, without locks. ?1 the number of events, ?2 losses from which
-- on an event is left out, ?3 and ?4 the place after which to begin.
SELECT seq, next_attempt_at, aggregate_type, aggregate_id
FROM outbox_event FORCE INDEX (outbox_event_due)
WHERE parked_on IS NULL AND next_attempt_at <= utc_timestamp(6)
  AND (next_attempt_at > ?3 OR (next_attempt_at = ?3 AND seq > ?4))
  AND claims + (claimed_by IS NOT NULL) < ?2
ORDER BY next_attempt_at, seq
LIMIT ?1
