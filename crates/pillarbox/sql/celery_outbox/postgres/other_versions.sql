-- Returns how many of the oldest tasks have an unknown schema_version, and the highest such version. No relay claims these
-- tasks, so they are soon among the oldest. $1 the number of tasks to examine.
SELECT count(*), max(schema_version)
FROM (SELECT schema_version FROM {schema}.celery_outbox
      WHERE updated_at IS NULL AND retry_after IS NULL
      ORDER BY updated_at, id
      LIMIT $1) AS oldest
WHERE schema_version NOT BETWEEN 1 AND 1
