-- Settle: updates rows that stay in the table. One statement for a whole batch; each row only if its claim is unchanged.
-- $1 ids, $2 their updated_at, $3 changes, $4 retries, $5 seconds until due.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), verdict AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::timestamptz[], $3::text[], $4::int[], $5::float8[])
        AS verdict (id, held_since, change, retries, after)
)
UPDATE {schema}.celery_outbox AS task
SET retries = CASE verdict.change WHEN 'retry' THEN least(verdict.retries, 32767) ELSE task.retries END,
    -- A task that never failed and is given back is untried again, in the package's admin, too.
    updated_at = CASE WHEN verdict.change = 'release' AND verdict.after = 0 AND task.retries = 0 THEN NULL
                      ELSE clock.now END,
    retry_after = CASE WHEN verdict.change = 'release' AND verdict.after = 0 AND task.retries = 0 THEN NULL
                       ELSE clock.now + verdict.after * interval '1 second' END
FROM verdict, clock
WHERE task.id = verdict.id AND task.updated_at = verdict.held_since
RETURNING task.id, task.updated_at
