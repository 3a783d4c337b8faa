-- Get: the attempts of one event that are kept.
SELECT number, destination, attempted_at, took_ms, status_code, error, answer, delivered
FROM outbox_attempt WHERE event_id = ?1 ORDER BY number
