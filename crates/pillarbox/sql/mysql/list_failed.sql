-- List: failed events, by the time of failure. ?13, ?14 after this time and seq, ?15, ?16 before these.
FORCE INDEX (outbox_event_done)
WHERE status = 'failed'
  AND (done_at > ?13 OR (done_at = ?13 AND seq > ?14)) AND (done_at < ?15 OR (done_at = ?15 AND seq < ?16))
ORDER BY done_at {direction}, seq {direction}
