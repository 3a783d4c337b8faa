-- Lets emit write into the log of this server's timeline: a relay reads it now. $1 epoch, $2 timeline of the lead,
-- $3 leader.
UPDATE {schema}.outbox_log_key AS key
SET timeline = $2::text
WHERE key.timeline <> $2::text AND {schema}.outbox_log_timeline() = $2::text
  AND EXISTS (SELECT FROM {schema}.outbox_log WHERE epoch = $1 AND leader = $3)
