-- List: events that are parked on ?17. ?13, ?14 after this time and seq, ?15, ?16 before these.
WHERE parked_on = ?17 AND (next_attempt_at, seq) > (?13, ?14) AND (next_attempt_at, seq) < (?15, ?16)
ORDER BY next_attempt_at {direction}, seq {direction}
