-- Settle: what was delivered is deleted, each row only if it is still as our claim left it. $1 ids, $2 their updated_at.
DELETE FROM {schema}.celery_outbox AS task
USING unnest($1::bigint[], $2::timestamptz[]) AS sent (id, held_since)
WHERE task.id = sent.id AND task.updated_at = sent.held_since
RETURNING task.id
