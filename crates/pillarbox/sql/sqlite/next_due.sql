-- Returns the seconds until the next event is due: a retry, a delayed event, or an expired lease.
-- For a text that is not a time, which only another program can have written, it returns an hour.
SELECT coalesce((julianday(next_attempt_at) - julianday('now')) * 86400.0, 3600.0)
FROM outbox_event
WHERE status = 'pending' AND parked_on IS NULL
ORDER BY next_attempt_at
LIMIT 1
