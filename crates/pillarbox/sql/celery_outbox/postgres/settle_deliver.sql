-- Settle: deletes delivered tasks, each only if its claim is unchanged. $1 ids, $2 their updated_at.
DELETE FROM {schema}.celery_outbox AS task
USING unnest($1::bigint[], $2::timestamptz[]) AS sent (id, held_since)
WHERE task.id = sent.id AND task.updated_at = sent.held_since
RETURNING task.id
