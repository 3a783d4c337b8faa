-- Locks the tasks whose claim is unchanged, and returns their ids. ?1 a JSON array of [id, updated_at].
SELECT task.id
FROM json_table(?1, '$[*]' COLUMNS (id BIGINT PATH '$[0]', since DATETIME(6) PATH '$[1]')) AS held
STRAIGHT_JOIN celery_outbox AS task FORCE INDEX (PRIMARY) ON task.id = held.id AND task.updated_at = held.since
FOR UPDATE
