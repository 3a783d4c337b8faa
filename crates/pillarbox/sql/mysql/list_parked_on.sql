-- List: events that are parked on ?17. ?13, ?14 after this time and seq.
FORCE INDEX (outbox_event_due)
WHERE parked_on = ?17 AND (next_attempt_at > ?13 OR (next_attempt_at = ?13 AND seq > ?14))
ORDER BY next_attempt_at, seq
