-- Session: deletes ended sessions, and all but the $3 most recently used. $1 seconds after which an idle session ends,
-- $2 seconds after which every session ends.
DELETE FROM {schema}.outbox_session
WHERE seen_at <= clock_timestamp() - $1 * interval '1 second' OR began_at <= clock_timestamp() - $2 * interval '1 second'
   OR token_hash NOT IN (SELECT token_hash FROM {schema}.outbox_session ORDER BY seen_at DESC LIMIT $3)
