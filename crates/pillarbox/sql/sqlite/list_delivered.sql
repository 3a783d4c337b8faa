-- List, what is delivered, by when it became that. ?13, ?14 behind this moment and seq, ?15, ?16 before these.
WHERE status = 'delivered' AND (delivered_at, seq) > (?13, ?14) AND (delivered_at, seq) < (?15, ?16)
ORDER BY delivered_at {direction}, seq {direction}
