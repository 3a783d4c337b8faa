-- Job: starts one, claimed by the process that starts it, unless too many are running, and returns it. ?1 id, ?2 action,
-- ?3 reason, ?4 scope, ?5 target, ?6 who, ?7 rate or 0, ?8 expected, ?9 whether there may be more, ?10 the audit entry,
-- ?11 token, ?12 seconds of the lease, ?13 the maximum number of running jobs.
INSERT INTO outbox_job
    (id, action, reason, scope, target, who, rate, expected, expected_more, audit_id, claimed_by, lease_until)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, nullif(?7, 0), ?8, ?9, ?10, ?11, utc_timestamp(6) + INTERVAL least(?12, 3e9) * 1e6 MICROSECOND
FROM (SELECT count(*) AS count FROM outbox_job WHERE state = 'running') AS running
WHERE running.count < ?13;
SELECT id, action, reason, scope, target, who, rate, expected, expected_more, audit_id, state, reached, done, changed, error,
       started_at, ended_at, timestampdiff(MICROSECOND, started_at, coalesce(ended_at, utc_timestamp(6))) / 1e6 AS took
FROM outbox_job WHERE id = ?1
