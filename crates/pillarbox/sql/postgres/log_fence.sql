-- Spill: locks the position of the log for this leader. Returns no row if another relay leads by now. What is spilled is on disk
-- when it is committed: the server may forget the log afterwards. So the statement that stores the position asks for that again.
-- $1 epoch, $2 timeline of the lead, $3 leader: a promoted standby may have given the epoch to somebody else.
SELECT confirmed::text, durable.setting
FROM {schema}.outbox_log,
     (SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')
             WHEN 'off' THEN 'local' ELSE current_setting('synchronous_commit') END, true) AS setting) AS durable
WHERE epoch = $1 AND leader = $3 AND {schema}.outbox_log_timeline() = $2::text
FOR UPDATE OF outbox_log
