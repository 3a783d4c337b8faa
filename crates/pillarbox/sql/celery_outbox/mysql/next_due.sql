-- Returns the seconds until the next task is due: now, at the end of a backoff, or when a claim becomes stale.
-- ?1 seconds after which a claim is stale, ?2 retries from which on a task is not sent any more (0: no limit), ?3 whether to search
-- stale claims among many tasks.
SELECT min(due_in) AS due_in
FROM (
    (SELECT 0e0 AS due_in FROM celery_outbox FORCE INDEX (celery_outbox_stale_idx)
     WHERE updated_at IS NULL AND retry_after IS NULL AND schema_version BETWEEN 1 AND 1 AND (?2 = 0 OR retries < ?2)
     ORDER BY id LIMIT 1)
    UNION ALL
    (SELECT timestampdiff(MICROSECOND, now(6), retry_after) / 1e6 FROM celery_outbox FORCE INDEX (celery_outbox_retry_idx)
     WHERE retry_after IS NOT NULL AND (updated_at IS NULL OR updated_at <= retry_after)
       AND schema_version BETWEEN 1 AND 1 AND (?2 = 0 OR retries < ?2)
     ORDER BY retry_after, id LIMIT 1)
    UNION ALL
    (SELECT timestampdiff(MICROSECOND, now(6), updated_at) / 1e6 + ?1 FROM celery_outbox FORCE INDEX (celery_outbox_stale_idx)
     WHERE (?3 OR 1000 >= (SELECT count(*) FROM (
                SELECT 1 FROM celery_outbox FORCE INDEX (celery_outbox_stale_idx) WHERE updated_at IS NOT NULL LIMIT 1001) AS old))
       AND updated_at IS NOT NULL AND retry_after IS NULL AND schema_version BETWEEN 1 AND 1
       AND (?2 = 0 OR retries < ?2)
     ORDER BY updated_at, id LIMIT 1)
) AS first
