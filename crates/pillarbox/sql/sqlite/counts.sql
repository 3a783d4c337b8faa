-- Counts: waiting events, from the partial indexes, and terminal events.
SELECT count(*) FILTER (WHERE next_attempt_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')) AS due,
       count(*) FILTER (WHERE next_attempt_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now') AND claimed_by IS NULL) AS scheduled,
       count(*) FILTER (WHERE next_attempt_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now') AND claimed_by IS NOT NULL) AS sending,
       (SELECT count(*) FROM outbox_event WHERE status = 'delivered') AS delivered,
       (SELECT count(*) FROM outbox_event WHERE status = 'failed') AS failed,
       (julianday('now') - julianday(min(next_attempt_at)
           FILTER (WHERE next_attempt_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')))) * 86400.0 AS oldest_due
FROM outbox_event
WHERE status = 'pending' AND parked_on IS NULL
