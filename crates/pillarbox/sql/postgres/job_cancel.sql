-- Job: cancels it. The next batch of the process that works on it is refused. $1 id.
UPDATE {schema}.outbox_job SET state = 'cancelled', ended_at = clock_timestamp() WHERE id = $1 AND state = 'running'
