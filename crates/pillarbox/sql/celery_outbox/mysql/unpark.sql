-- Unpark: makes tasks due that this store delayed because the broker was down, each only if it is unchanged since.
-- ?1 a JSON array of [id, updated_at].
UPDATE json_table(?1, '$[*]' COLUMNS (id BIGINT PATH '$[0]', since DATETIME(6) PATH '$[1]')) AS parked
STRAIGHT_JOIN celery_outbox AS task FORCE INDEX (PRIMARY) ON task.id = parked.id AND task.updated_at = parked.since
SET task.retry_after = now(6)
WHERE task.retry_after > now(6)
