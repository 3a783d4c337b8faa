-- List: delivered events, by the time of delivery. ?13, ?14 after this time and seq, ?15, ?16 before these.
FORCE INDEX (outbox_event_done)
WHERE status = 'delivered'
  AND (done_at > ?13 OR (done_at = ?13 AND seq > ?14)) AND (done_at < ?15 OR (done_at = ?15 AND seq < ?16))
ORDER BY done_at {direction}, seq {direction}
