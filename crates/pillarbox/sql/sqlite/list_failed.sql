-- List: failed events, by the time of failure. ?13, ?14 after this time and seq, ?15, ?16 before these.
WHERE status = 'failed' AND (updated_at, seq) > (?13, ?14) AND (updated_at, seq) < (?15, ?16)
ORDER BY updated_at {direction}, seq {direction}
