-- Check: the columns of the tables in schema $1, and whether an INSERT must name them.
SELECT class.relname::text, attribute.attname::text,
       attribute.attnotnull AND NOT attribute.atthasdef AND attribute.attidentity = ''
FROM pg_catalog.pg_class AS class
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
JOIN pg_catalog.pg_attribute AS attribute ON attribute.attrelid = class.oid
WHERE namespace.nspname = $1 AND class.relname IN ('celery_outbox', 'celery_outbox_dead_letter')
  AND attribute.attnum > 0 AND NOT attribute.attisdropped
