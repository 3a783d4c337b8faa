-- List, what is failed, by when it became that. $13, $14 behind this moment and seq, $15, $16 before these.
WHERE status = 'failed' AND (updated_at, seq) > ($13, $14) AND (updated_at, seq) < ($15, $16)
ORDER BY updated_at {direction}, seq {direction}
