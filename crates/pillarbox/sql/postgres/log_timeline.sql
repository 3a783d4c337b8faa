-- Lets emit write into the log of this server's timeline: a relay reads it now. $1 epoch.
UPDATE {schema}.outbox_log_key AS key
SET timeline = {schema}.outbox_log_timeline()
WHERE key.timeline <> {schema}.outbox_log_timeline() AND EXISTS (SELECT FROM {schema}.outbox_log WHERE epoch = $1)
