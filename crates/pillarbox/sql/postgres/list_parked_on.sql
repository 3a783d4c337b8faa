-- List: events that are parked on $17. $13, $14 after this time and seq.
WHERE parked_on = $17 AND (next_attempt_at, seq) > ($13, $14)
ORDER BY next_attempt_at, seq
