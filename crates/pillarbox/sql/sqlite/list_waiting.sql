-- List, what is neither parked nor done, by when it is due. ?1 the state; ?13, ?14 behind this moment and seq.
-- What is due ends now, and what is not begins there.
WHERE status = 'pending' AND parked_on IS NULL
  AND (next_attempt_at, seq)
      > (max(?13, CASE WHEN ?1 IN ('scheduled', 'sending') THEN strftime('%Y-%m-%dT%H:%M:%fZ', 'now') ELSE '' END), ?14)
  AND next_attempt_at <= CASE WHEN ?1 = 'due' THEN strftime('%Y-%m-%dT%H:%M:%fZ', 'now') ELSE char(1114111) END
ORDER BY next_attempt_at, seq
