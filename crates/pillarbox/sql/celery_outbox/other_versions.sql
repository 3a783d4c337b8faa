-- How many of the oldest tasks are of a schema_version that is not known here, and which one is the highest of those.
-- Nobody claims them, so they are among the oldest before long. $1 how many are looked at.
SELECT count(*), max(schema_version)
FROM (SELECT schema_version FROM {schema}.celery_outbox
      WHERE updated_at IS NULL AND retry_after IS NULL
      ORDER BY updated_at, id
      LIMIT $1) AS oldest
WHERE schema_version NOT BETWEEN 1 AND 1
