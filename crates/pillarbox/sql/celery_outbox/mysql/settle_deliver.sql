-- Settle: deletes locked tasks. ?1 a JSON array of ids.
DELETE task
FROM json_table(?1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS sent
STRAIGHT_JOIN celery_outbox AS task FORCE INDEX (PRIMARY) ON task.id = sent.id
