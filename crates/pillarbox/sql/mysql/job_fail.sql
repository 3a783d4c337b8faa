-- Job: ends it with an error. ?1 id, ?2 token, ?3 error.
UPDATE outbox_job SET state = 'failed', error = ?3, ended_at = utc_timestamp(6)
WHERE id = ?1 AND claimed_by = ?2 AND state = 'running'
