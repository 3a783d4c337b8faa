-- Get: the attempts of one event that are kept.
SELECT number, destination::text, attempted_at, took_ms, status_code, error, answer, delivered
FROM {schema}.outbox_attempt WHERE event_id = $1 ORDER BY number
