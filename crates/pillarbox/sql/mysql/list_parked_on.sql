-- List: events that are parked on ?17. ?13, ?14 after this time and seq, ?15, ?16 before these.
FORCE INDEX (outbox_event_due)
WHERE parked_on = ?17 AND (next_attempt_at > ?13 OR (next_attempt_at = ?13 AND seq > ?14))
  AND (next_attempt_at < ?15 OR (next_attempt_at = ?15 AND seq < ?16))
ORDER BY next_attempt_at {direction}, seq {direction}
