-- Summary for people: what waits, by the partial indexes, and what is kept. ?1 is PostgreSQL's: here all are counted.
SELECT waiting.count + parked.count AS pending, waiting.due, waiting.sending, parked.count AS parked,
       (SELECT count(*) FROM outbox_event WHERE status = 'failed') AS failed,
       (SELECT count(*) FROM outbox_event) AS total,
       ?1 < 0 AS estimated,
       (julianday('now') - julianday(min(coalesce(waiting.oldest, parked.oldest), coalesce(parked.oldest, waiting.oldest))))
           * 86400.0 AS oldest_pending
FROM (SELECT count(*) AS count,
             count(*) FILTER (WHERE next_attempt_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')) AS due,
             count(*) FILTER (WHERE next_attempt_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now') AND claimed_by IS NOT NULL)
                 AS sending,
             min(created_at) AS oldest
      FROM outbox_event WHERE status = 'pending' AND parked_on IS NULL) AS waiting,
     (SELECT count(*) AS count, min(created_at) AS oldest FROM outbox_event WHERE parked_on IS NOT NULL) AS parked
