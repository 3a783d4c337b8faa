-- Job: renews its lease. $1 id, $2 token, $3 seconds.
UPDATE {schema}.outbox_job SET lease_until = clock_timestamp() + $3 * interval '1 second'
WHERE id = $1 AND claimed_by = $2 AND state = 'running'
