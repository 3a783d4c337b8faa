-- List: parked events, by the name they are parked on. $13, $14, $17 after this time, seq and name.
WHERE parked_on IS NOT NULL AND (parked_on, next_attempt_at, seq) > ($17, $13, $14)
ORDER BY parked_on, next_attempt_at, seq
