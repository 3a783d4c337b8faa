-- List: parked events against their order, for the page before a place. ?15, ?16, ?17 before this time, seq and name.
FORCE INDEX (outbox_event_due)
WHERE parked_on <= ?17
  AND (parked_on < ?17 OR next_attempt_at < ?15 OR (next_attempt_at = ?15 AND seq < ?16))
ORDER BY parked_on DESC, next_attempt_at DESC, seq DESC
