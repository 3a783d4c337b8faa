-- Sweep, first part: finds due tasks with too many retries, for example after the limit was lowered. ?1 seconds after which a claim
-- is stale, ?2 the limit, ?3 the number of due tasks of each kind to examine.
SELECT id, updated_at
FROM (
    (SELECT id, updated_at, retries FROM celery_outbox FORCE INDEX (celery_outbox_stale_idx)
     WHERE updated_at IS NULL AND retry_after IS NULL AND schema_version BETWEEN 1 AND 1
     ORDER BY id LIMIT ?3)
    UNION ALL
    (SELECT id, updated_at, retries FROM celery_outbox FORCE INDEX (celery_outbox_retry_idx)
     WHERE retry_after <= now(6)
       AND (updated_at IS NULL OR updated_at <= retry_after OR updated_at <= now(6) - INTERVAL least(?1, 3e9) * 1e6 MICROSECOND)
       AND schema_version BETWEEN 1 AND 1
     ORDER BY retry_after, id LIMIT ?3)
    UNION ALL
    (SELECT id, updated_at, retries FROM celery_outbox FORCE INDEX (celery_outbox_stale_idx)
     WHERE updated_at <= now(6) - INTERVAL least(?1, 3e9) * 1e6 MICROSECOND AND retry_after IS NULL
       AND schema_version BETWEEN 1 AND 1
     ORDER BY updated_at, id LIMIT ?3)
) AS due
WHERE retries >= ?2
