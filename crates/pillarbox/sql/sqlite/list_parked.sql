-- List, what is parked, by what on. ?13, ?14, ?17 behind this moment, seq and destination.
WHERE parked_on IS NOT NULL AND (parked_on, next_attempt_at, seq) > (?17, ?13, ?14)
ORDER BY parked_on, next_attempt_at, seq
