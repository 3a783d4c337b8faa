-- Renew: refreshes claims that are unchanged since this relay wrote them. $1 ids, $2 their updated_at.
UPDATE {schema}.celery_outbox AS task
SET updated_at = clock.now
FROM unnest($1::bigint[], $2::timestamptz[]) AS held (id, held_since), (SELECT clock_timestamp() AS now) AS clock
WHERE task.id = held.id AND task.updated_at = held.held_since
RETURNING task.id, task.updated_at
