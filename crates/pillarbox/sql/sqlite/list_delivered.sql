-- List: delivered events, by the time of delivery. ?13, ?14 after this time and seq, ?15, ?16 before these.
WHERE status = 'delivered' AND (delivered_at, seq) > (?13, ?14) AND (delivered_at, seq) < (?15, ?16)
ORDER BY delivered_at {direction}, seq {direction}
