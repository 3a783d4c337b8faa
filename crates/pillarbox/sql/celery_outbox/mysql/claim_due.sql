-- Claim, first part: locks due tasks, oldest first. ?1 limit, ?2 seconds after which another claim is stale, ?3 retries from which
-- on a task is not sent any more (0: no limit), ?4 whether to search stale claims among many tasks.
-- It selects the rows that django-celery-outbox's relay selects, except retried tasks that this relay has in flight. Each of the
-- three conditions walks an index in its order and stops at the limit: a sort would lock every row that it reads. Untried tasks
-- are ordered by id alone, because with updated_at before it the servers sort, though all of them are NULL.
-- The index for stale claims also has the tasks that wait for a retry. So stale claims are found without locks and locked by their
-- ids: InnoDB keeps the lock of a row that was read through a secondary index, even if the row does not match. With many such
-- tasks a search is slow, and ?4 decides.
(SELECT id, octet_length(args) + octet_length(kwargs) + octet_length(options) AS bytes
 FROM celery_outbox FORCE INDEX (celery_outbox_stale_idx)
 WHERE updated_at IS NULL AND retry_after IS NULL AND schema_version BETWEEN 1 AND 1 AND (?3 = 0 OR retries < ?3)
 ORDER BY id
 LIMIT ?1
 FOR UPDATE SKIP LOCKED)
UNION ALL
(SELECT id, octet_length(args) + octet_length(kwargs) + octet_length(options)
 FROM celery_outbox FORCE INDEX (celery_outbox_retry_idx)
 WHERE retry_after <= now(6)
   AND (updated_at IS NULL OR updated_at <= retry_after OR updated_at <= now(6) - INTERVAL least(?2, 3e9) * 1e6 MICROSECOND)
   AND schema_version BETWEEN 1 AND 1 AND (?3 = 0 OR retries < ?3)
 ORDER BY retry_after, id
 LIMIT ?1
 FOR UPDATE SKIP LOCKED)
UNION ALL
(SELECT task.id, octet_length(task.args) + octet_length(task.kwargs) + octet_length(task.options)
 FROM (SELECT id FROM celery_outbox FORCE INDEX (celery_outbox_stale_idx)
       WHERE (?4 OR 1000 >= (SELECT count(*) FROM (
                  SELECT 1 FROM celery_outbox FORCE INDEX (celery_outbox_stale_idx)
                  WHERE updated_at <= now(6) - INTERVAL least(?2, 3e9) * 1e6 MICROSECOND LIMIT 1001) AS old))
         AND updated_at <= now(6) - INTERVAL least(?2, 3e9) * 1e6 MICROSECOND AND retry_after IS NULL
         AND schema_version BETWEEN 1 AND 1 AND (?3 = 0 OR retries < ?3)
       ORDER BY updated_at, id
       LIMIT ?1) AS found
 STRAIGHT_JOIN celery_outbox AS task FORCE INDEX (PRIMARY) ON task.id = found.id
 WHERE task.updated_at <= now(6) - INTERVAL least(?2, 3e9) * 1e6 MICROSECOND AND task.retry_after IS NULL
 FOR UPDATE SKIP LOCKED)
