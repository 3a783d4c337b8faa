-- Settle: copies locked tasks to the dead letters. ?1 a JSON array of [id, error]. No column has a default, so all are named. As in
-- the rows that Django writes, dead_at is UTC.
INSERT INTO celery_outbox_dead_letter
    (created_at, dead_at, retries, task_id, task_name, args, kwargs, redacted_args, redacted_kwargs, options,
     sentry_trace_id, sentry_baggage, structlog_context, schema_version, failure_reason)
SELECT task.created_at, utc_timestamp(6), task.retries, task.task_id, task.task_name, task.args, task.kwargs, task.redacted_args,
       task.redacted_kwargs, task.options, task.sentry_trace_id, task.sentry_baggage, task.structlog_context,
       task.schema_version, failed.error
FROM json_table(?1, '$[*]' COLUMNS (id BIGINT PATH '$[0]', error TEXT CHARACTER SET utf8mb4 PATH '$[1]')) AS failed
STRAIGHT_JOIN celery_outbox AS task FORCE INDEX (PRIMARY) ON task.id = failed.id
