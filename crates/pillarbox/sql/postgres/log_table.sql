-- The state of an application's outbox table, and what the log's publication contains. One row.
-- $1 the schema, $2 the table; both NULL without a table. $3 the publication; without it that of the enabled log.
SELECT class.relkind::text, class.relpersistence::text, pg_has_role(class.relowner, 'USAGE'),
       ARRAY(SELECT attname::text FROM pg_attribute
             WHERE attrelid = class.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = ''),
       publication.pubname::text, publication.pubinsert, publication.pubviaroot,
       ARRAY(SELECT published.schemaname || '.' || published.tablename FROM pg_publication_tables AS published
             WHERE published.pubname = publication.pubname ORDER BY 1),
       pg_current_wal_insert_lsn()::text
FROM (SELECT coalesce($3::text, (SELECT publication FROM {schema}.outbox_log)) AS name) AS log
LEFT JOIN pg_publication AS publication ON publication.pubname = log.name
LEFT JOIN (pg_class AS class JOIN pg_namespace AS space ON space.oid = class.relnamespace)
    ON space.nspname = $1::text AND class.relname = $2::text
