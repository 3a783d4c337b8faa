-- Unpark: makes at most ?2 events parked on ?1 due, the longest parked first; with ?3 and ?4 only events of that kind.
UPDATE outbox_event
SET parked_on = NULL, next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
    updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE seq IN (
    SELECT seq FROM outbox_event
    WHERE parked_on = ?1 AND status = 'pending' AND (?3 IS NULL OR (event_type = ?3 AND aggregate_type = ?4))
    ORDER BY next_attempt_at, seq
    LIMIT ?2
)
RETURNING id
