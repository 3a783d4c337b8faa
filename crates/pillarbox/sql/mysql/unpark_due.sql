-- Unpark, first part: locks at most ?2 events parked on ?1, the longest parked first; with ?3 and ?4 only events of that kind.
SELECT id
FROM outbox_event FORCE INDEX (outbox_event_due)
WHERE parked_on = ?1 AND status = 'pending' AND (?3 IS NULL OR (event_type = ?3 AND aggregate_type = ?4))
ORDER BY next_attempt_at, seq
LIMIT ?2
FOR UPDATE SKIP LOCKED
