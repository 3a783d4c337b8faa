-- Sweep, second part: locks and reads the tasks that are unchanged since they were found. ?1 a JSON array of [id, updated_at], ?2 the
-- limit of retries.
SELECT task.id, task.created_at, task.retries, task.task_id, task.task_name, task.args, task.kwargs, task.options,
       task.sentry_trace_id, task.sentry_baggage, task.structlog_context, utc_timestamp(6) AS read_at
FROM json_table(?1, '$[*]' COLUMNS (id BIGINT PATH '$[0]', since DATETIME(6) PATH '$[1]')) AS due
STRAIGHT_JOIN celery_outbox AS task FORCE INDEX (PRIMARY) ON task.id = due.id AND task.updated_at <=> due.since
WHERE task.retries >= ?2
FOR UPDATE
