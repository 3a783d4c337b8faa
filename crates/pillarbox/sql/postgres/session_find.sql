-- Session: returns its user if it is valid, and whether it is stale: not used for a minute. $1 hash of the token, $2 seconds
-- after which an idle session ends, $3 seconds after which every session ends.
SELECT name::text, seen_at < clock_timestamp() - interval '1 minute' AS stale
FROM {schema}.outbox_session
WHERE token_hash = $1 AND seen_at > clock_timestamp() - $2 * interval '1 second'
  AND began_at > clock_timestamp() - $3 * interval '1 second'
