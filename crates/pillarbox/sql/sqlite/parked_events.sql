-- Returns at most ?6 events of the kind ?2, ?3 that are parked on ?1, the longest parked first, after the time ?4 and the seq ?5.
SELECT id, seq, next_attempt_at, payload, headers
FROM outbox_event
WHERE parked_on = ?1 AND status = 'pending' AND (next_attempt_at, seq) > (?4, ?5)
  AND event_type = ?2 AND aggregate_type = ?3
ORDER BY next_attempt_at, seq
LIMIT ?6
