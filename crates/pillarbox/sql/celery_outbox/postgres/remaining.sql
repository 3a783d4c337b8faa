-- Returns the number of due tasks that no relay holds, and for how many seconds the oldest of them has been waiting.
-- $1 seconds after which a claim is stale.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT count(*), extract(epoch FROM clock_timestamp())::float8 - extract(epoch FROM min(created_at))::float8
FROM (
    SELECT created_at FROM {schema}.celery_outbox
    WHERE updated_at IS NULL AND retry_after IS NULL AND schema_version BETWEEN 1 AND 1
    UNION ALL
    SELECT created_at FROM {schema}.celery_outbox
    WHERE retry_after <= (SELECT now FROM clock)
      AND (updated_at IS NULL OR updated_at <= retry_after
           OR updated_at <= (SELECT now FROM clock) - $1 * interval '1 second')
      AND schema_version BETWEEN 1 AND 1
    UNION ALL
    SELECT created_at FROM {schema}.celery_outbox
    WHERE updated_at <= (SELECT now FROM clock) - $1 * interval '1 second' AND retry_after IS NULL
      AND schema_version BETWEEN 1 AND 1
) AS due
