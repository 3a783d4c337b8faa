-- Depth: waiting and failed events, each counted up to ?1.
SELECT (SELECT count(*) FROM (SELECT 1 FROM outbox_event
                              WHERE status = 'pending' AND parked_on IS NULL
                                AND next_attempt_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
                              LIMIT ?1)) AS due,
       later.scheduled, later.sending,
       (SELECT count(*) FROM (SELECT 1 FROM outbox_event WHERE parked_on IS NOT NULL LIMIT ?1)) AS parked,
       (SELECT count(*) FROM (SELECT 1 FROM outbox_event WHERE status = 'failed' LIMIT ?1)) AS failed,
       (SELECT (julianday('now') - julianday(next_attempt_at)) * 86400.0 FROM outbox_event
        WHERE status = 'pending' AND parked_on IS NULL AND next_attempt_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
        ORDER BY next_attempt_at, seq LIMIT 1) AS oldest_due
FROM (SELECT count(*) FILTER (WHERE claimed_by IS NULL) AS scheduled, count(claimed_by) AS sending
      FROM (SELECT claimed_by FROM outbox_event
            WHERE status = 'pending' AND parked_on IS NULL AND next_attempt_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
            LIMIT ?1)) AS later
