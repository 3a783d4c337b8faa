-- Job: of those that have ended, only the newest ?1 are kept.
DELETE FROM outbox_job
WHERE state <> 'running' AND id NOT IN (SELECT id FROM outbox_job ORDER BY started_at DESC, id DESC LIMIT ?1)
