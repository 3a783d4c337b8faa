-- Session: whose it is, if it still lasts. It is stale when it has not been used for a minute. $1 hash of the token, $2 seconds
-- after which an idle one ends, $3 seconds after which each ends.
SELECT name::text, seen_at < clock_timestamp() - interval '1 minute' AS stale
FROM {schema}.outbox_session
WHERE token_hash = $1 AND seen_at > clock_timestamp() - $2 * interval '1 second'
  AND began_at > clock_timestamp() - $3 * interval '1 second'
