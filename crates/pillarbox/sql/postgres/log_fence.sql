-- Spill: locks the position of the log for this leader. Returns no row if another relay leads by now. What is spilled is on disk
-- when it is committed: the server may forget the log afterwards. $1 epoch, $2 timeline of the lead.
SELECT confirmed::text
FROM {schema}.outbox_log, (SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')
                               WHEN 'off' THEN 'local' ELSE current_setting('synchronous_commit') END, true)) AS durable
WHERE epoch = $1 AND {schema}.outbox_log_timeline() = $2::text
FOR UPDATE OF outbox_log
