-- Returns the seconds until the next event is due: a retry, a delayed event, or an expired lease. ?1 the time from which to search.
SELECT timestampdiff(MICROSECOND, utc_timestamp(6), next_attempt_at) / 1e6 AS due_in
FROM outbox_event FORCE INDEX (outbox_event_due)
WHERE parked_on IS NULL AND next_attempt_at >= ?1
ORDER BY next_attempt_at, seq
LIMIT 1
