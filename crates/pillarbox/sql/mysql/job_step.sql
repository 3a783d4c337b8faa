-- Job: records a batch, in its transaction. Changes no row if the lease is lost or the job has ended. ?1 id, ?2 token,
-- ?3 the cursor, ?4 events tried, ?5 events changed, ?6 whether it was the last batch, ?7 seconds of the lease.
UPDATE outbox_job
SET reached = ?3, done = done + ?4, changed = changed + ?5,
    state = CASE WHEN ?6 THEN 'done' ELSE state END, ended_at = CASE WHEN ?6 THEN utc_timestamp(6) END,
    lease_until = utc_timestamp(6) + INTERVAL least(?7, 3e9) * 1e6 MICROSECOND
WHERE id = ?1 AND claimed_by = ?2 AND state = 'running'
