-- Renew: refreshes locked claims. ?1 a JSON array of ids.
UPDATE json_table(?1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS held
STRAIGHT_JOIN celery_outbox AS task FORCE INDEX (PRIMARY) ON task.id = held.id
SET task.updated_at = now(6);
SELECT task.id, task.updated_at
FROM json_table(?1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS held
STRAIGHT_JOIN celery_outbox AS task FORCE INDEX (PRIMARY) ON task.id = held.id
