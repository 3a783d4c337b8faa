-- List: parked events against their order, for the page before a place. ?15, ?16, ?17 before this time, seq and name.
WHERE parked_on IS NOT NULL AND (parked_on, next_attempt_at, seq) < (?17, ?15, ?16)
ORDER BY parked_on DESC, next_attempt_at DESC, seq DESC
