-- Job: returns one. $1 id.
SELECT id, action::text, reason, scope::text, target, who::text, rate, expected, expected_more, audit_id, state::text, reached,
       done, changed, error, started_at, ended_at,
       extract(epoch FROM coalesce(ended_at, clock_timestamp()) - started_at)::double precision AS took
FROM {schema}.outbox_job WHERE id = $1
