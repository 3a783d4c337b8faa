-- Returns the number of due events that no relay holds.
SELECT count(*) AS remaining FROM outbox_event
WHERE parked_on IS NULL AND next_attempt_at <= utc_timestamp(6)
