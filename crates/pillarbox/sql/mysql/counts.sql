-- Counts: waiting events, from the index of due events, and terminal events.
SELECT waiting.due, waiting.scheduled, waiting.sending,
       (SELECT count(*) FROM outbox_event WHERE status = 'delivered') AS delivered,
       (SELECT count(*) FROM outbox_event WHERE status = 'failed') AS failed,
       waiting.oldest_due
FROM (SELECT count(CASE WHEN next_attempt_at <= utc_timestamp(6) THEN 1 END) AS due,
             count(CASE WHEN next_attempt_at > utc_timestamp(6) AND claimed_by IS NULL THEN 1 END) AS scheduled,
             count(CASE WHEN next_attempt_at > utc_timestamp(6) AND claimed_by IS NOT NULL THEN 1 END) AS sending,
             timestampdiff(MICROSECOND, min(CASE WHEN next_attempt_at <= utc_timestamp(6) THEN next_attempt_at END),
                           utc_timestamp(6)) / 1e6 AS oldest_due
      FROM outbox_event
      WHERE parked_on IS NULL AND next_attempt_at IS NOT NULL) AS waiting
