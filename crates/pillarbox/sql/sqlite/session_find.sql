-- Session: whose it is, if it still lasts. It is stale when it has not been used for a minute. ?1 hash of the token, ?2 seconds
-- after which an idle one ends, ?3 seconds after which each ends.
SELECT name, seen_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 minute') AS stale
FROM outbox_session
WHERE token_hash = ?1 AND seen_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('-%.3f seconds', ?2))
  AND began_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('-%.3f seconds', ?3))
