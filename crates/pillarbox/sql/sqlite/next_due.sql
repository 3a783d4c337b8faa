-- How many seconds until the next event is due: a retry, a delayed event, or a lease that runs out.
-- A text that is no moment, which only somebody else can have written, is looked at again in an hour.
SELECT coalesce((julianday(next_attempt_at) - julianday('now')) * 86400.0, 3600.0)
FROM outbox_event
WHERE status = 'pending' AND parked_on IS NULL
ORDER BY next_attempt_at
LIMIT 1
