-- List: events that are neither parked nor done, by due time. ?1 the state; ?13, ?14 after this time and seq, ?15, ?16 before
-- these.
-- The stretch of due events ends now; that of scheduled events and of events being sent begins now.
FORCE INDEX (outbox_event_due)
WHERE parked_on IS NULL
  AND (next_attempt_at > ?13 OR (next_attempt_at = ?13 AND seq > ?14))
  AND (next_attempt_at < ?15 OR (next_attempt_at = ?15 AND seq < ?16))
  AND next_attempt_at > CASE WHEN ?1 IN ('scheduled', 'sending') THEN utc_timestamp(6) ELSE '0001-01-01' END
  AND next_attempt_at <= CASE WHEN ?1 = 'due' THEN utc_timestamp(6) ELSE '9999-12-31 23:59:59.999999' END
ORDER BY next_attempt_at {direction}, seq {direction}
