-- List: parked events, by the name they are parked on. ?13, ?14, ?17 after this time, seq and name.
FORCE INDEX (outbox_event_due)
WHERE parked_on >= ?17
  AND (parked_on > ?17 OR next_attempt_at > ?13 OR (next_attempt_at = ?13 AND seq > ?14))
ORDER BY parked_on, next_attempt_at, seq
