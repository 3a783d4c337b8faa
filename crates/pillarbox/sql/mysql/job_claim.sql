-- Job: claims the oldest running one without a valid lease, with the token ?1, for ?2 seconds, and returns it.
UPDATE outbox_job
SET claimed_by = ?1, lease_until = utc_timestamp(6) + INTERVAL least(?2, 3e9) * 1e6 MICROSECOND
WHERE state = 'running' AND (lease_until IS NULL OR lease_until < utc_timestamp(6))
ORDER BY started_at LIMIT 1;
SELECT id, action, reason, scope, target, who, rate, expected, expected_more, audit_id, state, reached, done, changed, error,
       started_at, ended_at, timestampdiff(MICROSECOND, started_at, coalesce(ended_at, utc_timestamp(6))) / 1e6 AS took
FROM outbox_job WHERE state = 'running' AND claimed_by = ?1
