-- Returns the seconds until the next task is due: now, at the end of a backoff, or when a claim becomes stale.
-- $1 seconds after which a claim is stale, $2 retries from which on a task is not sent any more (0: no limit).
SELECT extract(epoch FROM min(due_at))::float8 - extract(epoch FROM clock_timestamp())::float8
FROM (
    (SELECT created_at AS due_at FROM {schema}.celery_outbox
     WHERE updated_at IS NULL AND retry_after IS NULL AND schema_version BETWEEN 1 AND 1
       AND ($2 = 0 OR retries < $2)
     ORDER BY updated_at, id LIMIT 1)
    UNION ALL
    (SELECT retry_after FROM {schema}.celery_outbox
     WHERE retry_after IS NOT NULL AND (updated_at IS NULL OR updated_at <= retry_after)
       AND schema_version BETWEEN 1 AND 1 AND ($2 = 0 OR retries < $2)
     ORDER BY retry_after, id LIMIT 1)
    UNION ALL
    (SELECT updated_at + $1 * interval '1 second' FROM {schema}.celery_outbox
     WHERE updated_at IS NOT NULL AND retry_after IS NULL AND schema_version BETWEEN 1 AND 1
       AND ($2 = 0 OR retries < $2)
     ORDER BY updated_at, id LIMIT 1)
) AS first
