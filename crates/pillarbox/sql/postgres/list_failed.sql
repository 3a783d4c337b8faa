-- Retry: the dead letters that a filter finds, the oldest first. Every filter that is null is open; values as in list.sql,
-- without the state.
SELECT id
FROM {schema}.outbox_event
WHERE status = 'failed'
  AND ($1::text IS NULL OR event_type LIKE $1)
  AND ($2::text IS NULL OR aggregate_type = $2)
  AND ($3::text IS NULL OR aggregate_id = $3)
  AND ($4::text IS NULL OR parked_on = $4)
  AND ($5::text IS NULL OR id::text ILIKE $5 OR event_type ILIKE $5 OR aggregate_type ILIKE $5
       OR aggregate_id ILIKE $5 OR idempotency_key ILIKE $5 OR error_message ILIKE $5)
  AND ($6::timestamptz IS NULL OR created_at >= $6)
  AND ($7::timestamptz IS NULL OR created_at < $7)
  AND ($8::bigint IS NULL OR seq < $8)
ORDER BY seq
LIMIT $9
