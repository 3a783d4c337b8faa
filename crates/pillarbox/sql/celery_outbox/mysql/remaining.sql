-- Returns the number of due tasks that no relay holds, and for how many seconds the oldest of them has been waiting. Django writes
-- created_at in UTC. ?1 seconds after which a claim is stale.
SELECT count(*) AS due, timestampdiff(MICROSECOND, min(created_at), utc_timestamp(6)) / 1e6 AS oldest
FROM (
    SELECT created_at FROM celery_outbox FORCE INDEX (celery_outbox_stale_idx)
    WHERE updated_at IS NULL AND retry_after IS NULL AND schema_version BETWEEN 1 AND 1
    UNION ALL
    SELECT created_at FROM celery_outbox FORCE INDEX (celery_outbox_retry_idx)
    WHERE retry_after <= now(6)
      AND (updated_at IS NULL OR updated_at <= retry_after OR updated_at <= now(6) - INTERVAL least(?1, 3e9) * 1e6 MICROSECOND)
      AND schema_version BETWEEN 1 AND 1
    UNION ALL
    SELECT created_at FROM celery_outbox FORCE INDEX (celery_outbox_stale_idx)
    WHERE updated_at <= now(6) - INTERVAL least(?1, 3e9) * 1e6 MICROSECOND AND retry_after IS NULL
      AND schema_version BETWEEN 1 AND 1
) AS due
