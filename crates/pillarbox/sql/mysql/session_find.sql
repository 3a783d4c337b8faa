-- Session: returns its user if it is valid, and whether it is stale: not used for a minute. ?1 hash of the token, ?2 seconds
-- after which an idle session ends, ?3 seconds after which every session ends.
SELECT name, seen_at < utc_timestamp(6) - INTERVAL 1 MINUTE AS stale
FROM outbox_session
WHERE token_hash = ?1 AND seen_at > utc_timestamp(6) - INTERVAL least(?2, 3e9) * 1e6 MICROSECOND AND began_at > utc_timestamp(6) - INTERVAL least(?3, 3e9) * 1e6 MICROSECOND
