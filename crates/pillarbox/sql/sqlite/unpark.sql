-- Unpark: events that wait for ?1 are due again, those first that wait longest, at most ?2; with ?3 and ?4 only those of a kind.
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
