-- Wal disable: whether everything up to a position is delivered or in the table, whether a relay leads, and the bytes that are left.
-- $1 the position.
SELECT coalesce(confirmed >= $1::text::pg_lsn, false),
       leader IS NOT NULL AND leader_until > clock_timestamp(),
       greatest($1::text::pg_lsn - coalesce(confirmed, '0/0'), 0)::bigint
FROM {schema}.outbox_log
