-- Job: deletes ended jobs, except for the newest ?1.
DELETE FROM outbox_job
WHERE state <> 'running'
  AND id NOT IN (SELECT newest.id FROM (SELECT id FROM outbox_job ORDER BY started_at DESC, id DESC LIMIT ?1) AS newest)
