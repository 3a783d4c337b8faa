-- Claim, second part: reads the locked tasks, and the time of the claim. ?1 a JSON array of ids.
SELECT task.id, task.created_at, task.retries, task.task_id, task.task_name, task.args, task.kwargs, task.options,
       task.sentry_trace_id, task.sentry_baggage, task.structlog_context, utc_timestamp(6) AS read_at, now(6) AS claimed_at
FROM json_table(?1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS taken
STRAIGHT_JOIN celery_outbox AS task FORCE INDEX (PRIMARY) ON task.id = taken.id
