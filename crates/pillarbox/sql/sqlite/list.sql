-- List: events as people look for them, the newest first or, for retries, the oldest. Every filter that is
-- null is open. A state has its status beside it, because an index knows statuses only.
-- ?1 state, ?2 event type (a LIKE pattern), ?3 aggregate type, ?4 aggregate id, ?5 parked on, ?6 search (a LIKE pattern),
-- ?7 since, ?8 until, ?9 before this seq, ?10 limit, ?11 the state's status, ?12 whether the oldest come first.
-- SQLite's LIKE does not mind the case.
SELECT * FROM (
    SELECT id, seq, aggregate_type, aggregate_id, event_type, status, idempotency_key, attempts, max_attempts, claims,
           next_attempt_at, parked_on, delivered_at, error_message, created_at, updated_at,
           CASE WHEN status <> 'pending' THEN status
                WHEN parked_on IS NOT NULL THEN 'parked'
                WHEN next_attempt_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now') THEN 'due'
                WHEN claimed_by IS NOT NULL THEN 'sending'
                ELSE 'scheduled' END AS state
    FROM outbox_event
) AS event
WHERE (?11 IS NULL OR status = ?11)
  AND (?1 IS NULL OR state = ?1 OR status = ?1)
  AND (?2 IS NULL OR event_type LIKE ?2 ESCAPE '\')
  AND (?3 IS NULL OR aggregate_type = ?3)
  AND (?4 IS NULL OR aggregate_id = ?4)
  AND (?5 IS NULL OR parked_on = ?5)
  AND (?6 IS NULL OR id LIKE ?6 ESCAPE '\' OR event_type LIKE ?6 ESCAPE '\' OR aggregate_type LIKE ?6 ESCAPE '\'
       OR aggregate_id LIKE ?6 ESCAPE '\' OR idempotency_key LIKE ?6 ESCAPE '\' OR error_message LIKE ?6 ESCAPE '\')
  AND (?7 IS NULL OR created_at >= ?7)
  AND (?8 IS NULL OR created_at < ?8)
  AND (?9 IS NULL OR seq < ?9)
ORDER BY CASE WHEN ?12 THEN seq END, seq DESC
LIMIT ?10
