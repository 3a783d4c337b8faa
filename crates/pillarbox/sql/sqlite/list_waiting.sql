-- List: events that are neither parked nor done, by due time. ?1 the state; ?13, ?14 after this time and seq, ?15, ?16 before
-- these.
-- The stretch of due events ends now; that of scheduled events and of events being sent begins now.
WHERE status = 'pending' AND parked_on IS NULL
  AND (next_attempt_at, seq)
      > (max(?13, CASE WHEN ?1 IN ('scheduled', 'sending') THEN strftime('%Y-%m-%dT%H:%M:%fZ', 'now') ELSE '' END), ?14)
  AND (next_attempt_at, seq) < (?15, ?16)
  AND next_attempt_at <= CASE WHEN ?1 = 'due' THEN strftime('%Y-%m-%dT%H:%M:%fZ', 'now') ELSE char(1114111) END
ORDER BY next_attempt_at {direction}, seq {direction}
