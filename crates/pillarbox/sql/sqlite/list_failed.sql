-- Retry: the dead letters that a filter finds, the oldest first. Every filter that is null is open; values as in list.sql,
-- without the state.
SELECT id
FROM outbox_event
WHERE status = 'failed'
  AND (?1 IS NULL OR event_type LIKE ?1 ESCAPE '\')
  AND (?2 IS NULL OR aggregate_type = ?2)
  AND (?3 IS NULL OR aggregate_id = ?3)
  AND (?4 IS NULL OR parked_on = ?4)
  AND (?5 IS NULL OR id LIKE ?5 ESCAPE '\' OR event_type LIKE ?5 ESCAPE '\' OR aggregate_type LIKE ?5 ESCAPE '\'
       OR aggregate_id LIKE ?5 ESCAPE '\' OR idempotency_key LIKE ?5 ESCAPE '\' OR error_message LIKE ?5 ESCAPE '\')
  AND (?6 IS NULL OR created_at >= ?6)
  AND (?7 IS NULL OR created_at < ?7)
  AND (?8 IS NULL OR seq < ?8)
ORDER BY seq
LIMIT ?9
