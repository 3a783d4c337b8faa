-- Claim: due tasks, oldest first. $1 limit, $2 bytes, $3 seconds after which another claim is stale, $4 retries from which on
-- a task is not sent any more (0: no limit); the sweep fails such tasks.
-- It selects the rows that django-celery-outbox's relay selects. Each of its three conditions walks an index and stops at the
-- limit, and only the result is sorted. The orders are those of celery_outbox_stale_idx (twice) and celery_outbox_retry_idx; no
-- other index has them. (Ordered by id alone, the planner might search untried tasks along the primary key, through all waiting
-- tasks, if its statistics are from when none waited.)
-- The claim clears retry_after, so a retried task is not selected again while it is in flight. The other relay keeps
-- retry_after, but then updated_at is later: such a task is in flight, too, until its claim is stale. The clock is read in a
-- subquery, because a volatile function cannot end the walk through an index.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), untried AS MATERIALIZED (
    SELECT id, args, kwargs, options FROM {schema}.celery_outbox
    WHERE updated_at IS NULL AND retry_after IS NULL AND schema_version BETWEEN 1 AND 1 AND ($4 = 0 OR retries < $4)
    ORDER BY updated_at, id
    LIMIT $1
    FOR UPDATE SKIP LOCKED
), retried AS MATERIALIZED (
    SELECT id, args, kwargs, options FROM {schema}.celery_outbox
    WHERE retry_after <= (SELECT now FROM clock)
      AND (updated_at IS NULL OR updated_at <= retry_after
           OR updated_at <= (SELECT now FROM clock) - $3 * interval '1 second')
      AND schema_version BETWEEN 1 AND 1 AND ($4 = 0 OR retries < $4)
    ORDER BY retry_after, id
    LIMIT $1
    FOR UPDATE SKIP LOCKED
), stale AS MATERIALIZED (
    SELECT id, args, kwargs, options FROM {schema}.celery_outbox
    WHERE updated_at <= (SELECT now FROM clock) - $3 * interval '1 second' AND retry_after IS NULL
      AND schema_version BETWEEN 1 AND 1 AND ($4 = 0 OR retries < $4)
    ORDER BY updated_at, id
    LIMIT $1
    FOR UPDATE SKIP LOCKED
), sized AS MATERIALIZED (
    SELECT id, CASE WHEN coalesce(pg_column_compression(args), pg_column_compression(kwargs),
                                  pg_column_compression(options)) IS NULL
                    -- The size of an uncompressed value is known without decompressing it.
                    THEN pg_column_size(args) + pg_column_size(kwargs) + pg_column_size(options)
                    ELSE octet_length(args::text) + octet_length(kwargs::text) + octet_length(options::text) END AS bytes
    FROM (SELECT * FROM untried UNION ALL SELECT * FROM retried UNION ALL SELECT * FROM stale ORDER BY id LIMIT $1) AS due
), placed AS (
    SELECT id, row_number() OVER line AS place, sum(bytes) OVER line - bytes AS bytes_before
    FROM sized
    WINDOW line AS (ORDER BY id ROWS UNBOUNDED PRECEDING)
)
UPDATE {schema}.celery_outbox AS task
SET updated_at = clock.now, retry_after = NULL
FROM placed, clock
WHERE task.id = placed.id AND (placed.place = 1 OR placed.bytes_before < $2)
RETURNING task.id, task.created_at, task.updated_at, task.retries, task.task_id, task.task_name, task.args::text,
          task.kwargs::text, task.options::text, task.sentry_trace_id, task.sentry_baggage, task.structlog_context
