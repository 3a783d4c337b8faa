-- Job: claims the oldest running one without a valid lease, with the token ?1, for ?2 seconds.
UPDATE outbox_job
SET claimed_by = ?1, lease_until = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('+%.3f seconds', ?2))
WHERE id = (SELECT id FROM outbox_job
            WHERE state = 'running' AND (lease_until IS NULL OR lease_until < strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
            ORDER BY started_at LIMIT 1)
RETURNING id, action, reason, scope, target, who, rate, expected, expected_more, audit_id, state, reached, done, changed, error,
       started_at, ended_at,
       (julianday(coalesce(ended_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))) - julianday(started_at)) * 86400.0 AS took
