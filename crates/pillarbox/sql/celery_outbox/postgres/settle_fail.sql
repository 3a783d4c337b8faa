-- Settle: turns failed tasks into dead letters, each only if its claim is unchanged.
-- $1 ids, $2 their updated_at, $3 errors. No column of the tables has a default, so all are named.
WITH failed AS (
    DELETE FROM {schema}.celery_outbox AS task
    USING unnest($1::bigint[], $2::timestamptz[], $3::text[]) AS verdict (id, held_since, error)
    WHERE task.id = verdict.id AND task.updated_at = verdict.held_since
    RETURNING task.*, verdict.error
), kept AS (
    INSERT INTO {schema}.celery_outbox_dead_letter
        (created_at, dead_at, retries, task_id, task_name, args, kwargs, redacted_args, redacted_kwargs, options,
         sentry_trace_id, sentry_baggage, structlog_context, schema_version, failure_reason)
    SELECT created_at, clock_timestamp(), retries, task_id, task_name, args, kwargs, redacted_args, redacted_kwargs,
           options, sentry_trace_id, sentry_baggage, structlog_context, schema_version, error
    FROM failed
)
SELECT id FROM failed
