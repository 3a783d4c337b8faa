-- Job: of those that have ended, only the newest $1 are kept.
DELETE FROM {schema}.outbox_job
WHERE state <> 'running' AND id NOT IN (SELECT id FROM {schema}.outbox_job ORDER BY started_at DESC, id DESC LIMIT $1)
