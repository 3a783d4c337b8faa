-- List: events as people look for them, the newest first or, for retries, the oldest. Every filter that is
-- null is open. A state has its status beside it, because an index knows statuses only.
-- $1 state, $2 event type (a LIKE pattern), $3 aggregate type, $4 aggregate id, $5 parked on, $6 search (a LIKE pattern),
-- $7 since, $8 until, $9 before this seq, $10 limit, $11 the state's status, $12 whether the oldest come first.
SELECT * FROM (
    SELECT id, seq, aggregate_type::text, aggregate_id::text, event_type::text, status::text, idempotency_key::text,
           attempts, max_attempts, claims::int, next_attempt_at, parked_on::text, delivered_at, error_message,
           created_at, updated_at,
           CASE WHEN status <> 'pending' THEN status
                WHEN parked_on IS NOT NULL THEN 'parked'
                WHEN next_attempt_at <= clock_timestamp() THEN 'due'
                WHEN claimed_by IS NOT NULL THEN 'sending'
                ELSE 'scheduled' END AS state
    FROM {schema}.outbox_event
) AS event
WHERE ($11::text IS NULL OR status = $11)
  AND ($1::text IS NULL OR state = $1 OR status = $1)
  AND ($2::text IS NULL OR event_type LIKE $2)
  AND ($3::text IS NULL OR aggregate_type = $3)
  AND ($4::text IS NULL OR aggregate_id = $4)
  AND ($5::text IS NULL OR parked_on = $5)
  AND ($6::text IS NULL OR id::text ILIKE $6 OR event_type ILIKE $6 OR aggregate_type ILIKE $6
       OR aggregate_id ILIKE $6 OR idempotency_key ILIKE $6 OR error_message ILIKE $6)
  AND ($7::timestamptz IS NULL OR created_at >= $7)
  AND ($8::timestamptz IS NULL OR created_at < $8)
  AND ($9::bigint IS NULL OR seq < $9)
ORDER BY CASE WHEN $12 THEN seq END, seq DESC
LIMIT $10
