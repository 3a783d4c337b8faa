-- Unpark: makes tasks due that this store delayed because the broker was down, each only if it is unchanged since.
-- $1 ids, $2 their updated_at.
UPDATE {schema}.celery_outbox AS task
SET retry_after = clock.now
FROM unnest($1::bigint[], $2::timestamptz[]) AS parked (id, since), (SELECT clock_timestamp() AS now) AS clock
WHERE task.id = parked.id AND task.updated_at = parked.since AND task.retry_after > clock.now
