-- Claim, second part: marks the locked tasks as in flight and reads them. ?1 a JSON array of ids. It clears retry_after, so that a
-- retried task is not selected again while it is in flight.
UPDATE json_table(?1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS taken
STRAIGHT_JOIN celery_outbox AS task FORCE INDEX (PRIMARY) ON task.id = taken.id
SET task.updated_at = now(6), task.retry_after = NULL;
SELECT task.id, task.created_at, task.updated_at, task.retries, task.task_id, task.task_name, task.args, task.kwargs, task.options,
       task.sentry_trace_id, task.sentry_baggage, task.structlog_context, utc_timestamp(6) AS read_at
FROM json_table(?1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS taken
STRAIGHT_JOIN celery_outbox AS task FORCE INDEX (PRIMARY) ON task.id = taken.id
