-- Job: cancels it. The next batch of the process that works on it is refused. ?1 id.
UPDATE outbox_job SET state = 'cancelled', ended_at = utc_timestamp(6) WHERE id = ?1 AND state = 'running'
