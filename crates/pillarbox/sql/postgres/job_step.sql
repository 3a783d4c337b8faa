-- Job: records a batch, in its transaction. Returns no row if the lease is lost or the job has ended. $1 id, $2 token,
-- $3 the cursor, $4 events tried, $5 events changed, $6 whether it was the last batch, $7 seconds of the lease.
UPDATE {schema}.outbox_job
SET reached = $3::text, done = done + $4::bigint, changed = changed + $5::bigint,
    state = CASE WHEN $6::boolean THEN 'done' ELSE state END, ended_at = CASE WHEN $6::boolean THEN clock_timestamp() END,
    lease_until = clock_timestamp() + $7 * interval '1 second'
WHERE id = $1 AND claimed_by = $2 AND state = 'running'
