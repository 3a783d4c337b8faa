-- Check: the columns of the tables, and whether an INSERT must name them.
SELECT table_name AS of_table, column_name AS named,
       is_nullable = 'NO' AND column_default IS NULL AND extra NOT LIKE '%auto_increment%' AS needed
FROM information_schema.columns
WHERE table_schema = database() AND table_name IN ('celery_outbox', 'celery_outbox_dead_letter')
