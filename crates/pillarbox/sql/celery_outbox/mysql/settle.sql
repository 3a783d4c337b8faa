-- Settle: updates locked rows that stay in the table. ?1 a JSON array of [id, change, retries, seconds until due].
UPDATE json_table(?1, '$[*]' COLUMNS (
    id BIGINT PATH '$[0]', verdict CHAR(7) CHARACTER SET utf8mb4 PATH '$[1]', retries INTEGER PATH '$[2]', after DOUBLE PATH '$[3]'
)) AS settled
STRAIGHT_JOIN celery_outbox AS task FORCE INDEX (PRIMARY) ON task.id = settled.id
SET task.retries = CASE settled.verdict WHEN 'retry' THEN least(settled.retries, 32767) ELSE task.retries END,
    -- A task that never failed and is given back is untried again, in the package's admin, too. The retries of such a task do not
    -- change, so the order of the assignments does not matter.
    task.updated_at = CASE WHEN settled.verdict = 'release' AND settled.after = 0 AND task.retries = 0 THEN NULL ELSE now(6) END,
    task.retry_after = CASE WHEN settled.verdict = 'release' AND settled.after = 0 AND task.retries = 0 THEN NULL
                            ELSE now(6) + INTERVAL least(settled.after, 3e9) * 1e6 MICROSECOND END;
SELECT task.id, task.updated_at
FROM json_table(?1, '$[*]' COLUMNS (id BIGINT PATH '$[0]')) AS settled
STRAIGHT_JOIN celery_outbox AS task FORCE INDEX (PRIMARY) ON task.id = settled.id
