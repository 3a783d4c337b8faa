-- Examine: the indexes that are missing or invalid. $1 the schema, $2 their names.
SELECT name FROM unnest($2::text[]) AS name
WHERE NOT EXISTS (
    SELECT FROM pg_index AS index JOIN pg_class AS class ON class.oid = index.indexrelid
    JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
    WHERE namespace.nspname = $1 AND class.relname = name AND index.indisvalid AND index.indisready
)
