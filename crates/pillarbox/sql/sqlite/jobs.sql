-- Job: the newest first. ?1 limit.
SELECT id, action, reason, scope, target, who, rate, expected, expected_more, audit_id, state, reached, done, changed, error,
       started_at, ended_at,
       (julianday(coalesce(ended_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))) - julianday(started_at)) * 86400.0 AS took
FROM outbox_job ORDER BY started_at DESC, id DESC LIMIT ?1
