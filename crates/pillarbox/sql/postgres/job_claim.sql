-- Job: claims the oldest running one without a valid lease, with the token $1, for $2 seconds.
WITH free AS MATERIALIZED (
    SELECT id AS free_id FROM {schema}.outbox_job
    WHERE state = 'running' AND (lease_until IS NULL OR lease_until < clock_timestamp())
    ORDER BY started_at LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE {schema}.outbox_job SET claimed_by = $1, lease_until = clock_timestamp() + $2 * interval '1 second'
FROM free WHERE id = free_id
RETURNING id, action::text, reason, scope::text, target, who::text, rate, expected, expected_more, audit_id, state::text, reached,
       done, changed, error, started_at, ended_at,
       extract(epoch FROM coalesce(ended_at, clock_timestamp()) - started_at)::double precision AS took
