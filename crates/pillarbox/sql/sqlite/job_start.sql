-- Job: starts one, claimed by the process that starts it, unless too many are running. ?1 id, ?2 action, ?3 reason, ?4 scope,
-- ?5 target, ?6 who, ?7 rate or 0, ?8 expected, ?9 whether there may be more, ?10 the audit entry, ?11 token,
-- ?12 seconds of the lease, ?13 the maximum number of running jobs.
INSERT INTO outbox_job
    (id, action, reason, scope, target, who, rate, expected, expected_more, audit_id, claimed_by, lease_until)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, nullif(?7, 0), ?8, ?9, ?10, ?11,
       strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('+%.3f seconds', ?12))
WHERE (SELECT count(*) FROM outbox_job WHERE state = 'running') < ?13
RETURNING id, action, reason, scope, target, who, rate, expected, expected_more, audit_id, state, reached, done, changed, error,
       started_at, ended_at,
       (julianday(coalesce(ended_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))) - julianday(started_at)) * 86400.0 AS took
