-- Job: starts one, claimed by the process that starts it, unless too many are running. $1 id, $2 action, $3 reason, $4 scope,
-- $5 target, $6 who, $7 rate or 0, $8 expected, $9 whether there may be more, $10 the audit entry, $11 token,
-- $12 seconds of the lease, $13 the maximum number of running jobs.
INSERT INTO {schema}.outbox_job
    (id, action, reason, scope, target, who, rate, expected, expected_more, audit_id, claimed_by, lease_until)
SELECT $1::uuid, $2::text, $3::text, $4::jsonb, $5::text, $6::text, nullif($7::double precision, 0), $8::bigint, $9::boolean,
       $10::bigint, $11::uuid, clock_timestamp() + $12::double precision * interval '1 second'
WHERE (SELECT count(*) FROM {schema}.outbox_job WHERE state = 'running') < $13::bigint
RETURNING id, action::text, reason, scope::text, target, who::text, rate, expected, expected_more, audit_id, state::text, reached,
       done, changed, error, started_at, ended_at,
       extract(epoch FROM coalesce(ended_at, clock_timestamp()) - started_at)::double precision AS took
