-- Summary for people: what waits, by the partial indexes, and what is kept. $1 from how many rows on the database's
-- estimate will do for the total: counting them all would take longer than a page may.
SELECT waiting.count + parked.count AS pending, waiting.due, waiting.sending, parked.count AS parked,
       failed.count AS failed,
       CASE WHEN estimate.rows >= $1 THEN greatest(estimate.rows::bigint, waiting.count + parked.count + failed.count)
            ELSE (SELECT count(*) FROM {schema}.outbox_event) END AS total,
       estimate.rows >= $1 AS estimated,
       extract(epoch FROM clock_timestamp() - least(waiting.oldest, parked.oldest))::float8 AS oldest_pending
FROM (SELECT count(*), count(*) FILTER (WHERE next_attempt_at <= clock_timestamp()) AS due,
             count(*) FILTER (WHERE next_attempt_at > clock_timestamp() AND claimed_by IS NOT NULL) AS sending,
             min(created_at) AS oldest
      FROM {schema}.outbox_event WHERE status = 'pending' AND parked_on IS NULL) AS waiting,
     (SELECT count(*), min(created_at) AS oldest FROM {schema}.outbox_event WHERE parked_on IS NOT NULL) AS parked,
     (SELECT count(*) FROM {schema}.outbox_event WHERE status = 'failed') AS failed,
     (SELECT reltuples::float8 AS rows FROM pg_class WHERE oid = 'outbox_event'::regclass) AS estimate
