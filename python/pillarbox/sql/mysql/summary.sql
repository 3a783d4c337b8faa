-- Summary for people: what waits, by the index of due events, and what is kept. ?1 from how many rows on the server's estimate will
-- do for the total: counting them all would take longer than a page may.
SELECT waiting.number + parked.number AS pending, waiting.due, waiting.sending, parked.number AS parked, failed.number AS failed,
       CASE WHEN estimate.number >= ?1 THEN greatest(estimate.number, waiting.number + parked.number + failed.number)
            ELSE (SELECT count(*) FROM outbox_event) END AS total,
       estimate.number >= ?1 AS estimated,
       timestampdiff(MICROSECOND, least(coalesce(waiting.oldest, parked.oldest), coalesce(parked.oldest, waiting.oldest)),
                     utc_timestamp(6)) / 1e6 AS oldest_pending
FROM (SELECT count(*) AS number, count(CASE WHEN next_attempt_at <= utc_timestamp(6) THEN 1 END) AS due,
             count(CASE WHEN next_attempt_at > utc_timestamp(6) AND claimed_by IS NOT NULL THEN 1 END) AS sending,
             min(created_at) AS oldest
      FROM outbox_event WHERE parked_on IS NULL AND next_attempt_at IS NOT NULL) AS waiting,
     (SELECT count(*) AS number, min(created_at) AS oldest FROM outbox_event WHERE parked_on IS NOT NULL) AS parked,
     (SELECT count(*) AS number FROM outbox_event WHERE status = 'failed') AS failed,
     (SELECT CAST(coalesce(max(table_rows), 0) AS SIGNED) AS number
      FROM information_schema.tables WHERE table_schema = database() AND table_name = 'outbox_event') AS estimate
