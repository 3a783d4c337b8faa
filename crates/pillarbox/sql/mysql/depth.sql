-- Depth: waiting and failed events, each counted up to ?1.
SELECT (SELECT count(*) FROM (SELECT 1 FROM outbox_event
                              WHERE parked_on IS NULL AND next_attempt_at <= utc_timestamp(6) LIMIT ?1) AS due) AS due,
       later.scheduled, later.sending,
       (SELECT count(*) FROM (SELECT 1 FROM outbox_event WHERE parked_on IS NOT NULL LIMIT ?1) AS parked) AS parked,
       (SELECT count(*) FROM (SELECT 1 FROM outbox_event WHERE status = 'failed' LIMIT ?1) AS failed) AS failed,
       (SELECT timestampdiff(MICROSECOND, next_attempt_at, utc_timestamp(6)) / 1e6
        FROM outbox_event FORCE INDEX (outbox_event_due)
        WHERE parked_on IS NULL AND next_attempt_at <= utc_timestamp(6)
        ORDER BY next_attempt_at, seq LIMIT 1) AS oldest_due
FROM (SELECT count(CASE WHEN claimed_by IS NULL THEN 1 END) AS scheduled, count(claimed_by) AS sending
      FROM (SELECT claimed_by FROM outbox_event FORCE INDEX (outbox_event_due)
            WHERE parked_on IS NULL AND next_attempt_at > utc_timestamp(6) LIMIT ?1) AS waiting) AS later
