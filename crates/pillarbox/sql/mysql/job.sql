-- Job: returns one. ?1 id.
SELECT id, action, reason, scope, target, who, rate, expected, expected_more, audit_id, state, reached, done, changed, error,
       started_at, ended_at, timestampdiff(MICROSECOND, started_at, coalesce(ended_at, utc_timestamp(6))) / 1e6 AS took
FROM outbox_job WHERE id = ?1
