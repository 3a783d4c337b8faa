-- Sweep: turns due tasks with too many retries into dead letters without sending them, for example after the limit was lowered.
-- $1 seconds after which a claim is stale, $2 the limit, $3 the error, $4 the number of due tasks of each kind to examine.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), due AS MATERIALIZED (
    (SELECT id, updated_at, retries FROM {schema}.celery_outbox
     WHERE updated_at IS NULL AND retry_after IS NULL AND schema_version BETWEEN 1 AND 1
     ORDER BY updated_at, id LIMIT $4)
    UNION ALL
    (SELECT id, updated_at, retries FROM {schema}.celery_outbox
     WHERE retry_after <= (SELECT now FROM clock)
       AND (updated_at IS NULL OR updated_at <= retry_after
            OR updated_at <= (SELECT now FROM clock) - $1 * interval '1 second')
       AND schema_version BETWEEN 1 AND 1
     ORDER BY retry_after, id LIMIT $4)
    UNION ALL
    (SELECT id, updated_at, retries FROM {schema}.celery_outbox
     WHERE updated_at <= (SELECT now FROM clock) - $1 * interval '1 second' AND retry_after IS NULL
       AND schema_version BETWEEN 1 AND 1
     ORDER BY updated_at, id LIMIT $4)
), exceeded AS (
    DELETE FROM {schema}.celery_outbox AS task
    USING due
    WHERE due.retries >= $2 AND task.id = due.id AND task.updated_at IS NOT DISTINCT FROM due.updated_at
      AND task.retries >= $2
    RETURNING task.*
), kept AS (
    INSERT INTO {schema}.celery_outbox_dead_letter
        (created_at, dead_at, retries, task_id, task_name, args, kwargs, redacted_args, redacted_kwargs, options,
         sentry_trace_id, sentry_baggage, structlog_context, schema_version, failure_reason)
    SELECT created_at, clock_timestamp(), retries, task_id, task_name, args, kwargs, redacted_args, redacted_kwargs,
           options, sentry_trace_id, sentry_baggage, structlog_context, schema_version, $3
    FROM exceeded
)
SELECT id, created_at, updated_at, retries, task_id, task_name, args::text, kwargs::text, options::text,
       sentry_trace_id, sentry_baggage, structlog_context
FROM exceeded
