-- Claim, first part: locks due events, oldest first. ?1 limit, ?2 losses from which on an event is left out, ?3 and ?4 the place
-- after which to begin. The index gives the order: a sort would lock every due event. InnoDB does not use the comparison of
-- pairs for an index, so the place is written as two ranges.
SELECT seq, next_attempt_at, octet_length(payload) AS bytes, claims + (claimed_by IS NOT NULL) AS losses,
       claimed_by IS NULL AND updated_at = created_at AS fresh
FROM outbox_event FORCE INDEX (outbox_event_due)
WHERE parked_on IS NULL AND next_attempt_at <= utc_timestamp(6)
  AND (next_attempt_at > ?3 OR (next_attempt_at = ?3 AND seq > ?4))
  AND claims + (claimed_by IS NOT NULL) < ?2
ORDER BY next_attempt_at, seq
LIMIT ?1
FOR UPDATE SKIP LOCKED
