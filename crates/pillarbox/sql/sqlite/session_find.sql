-- Session: returns its user if it is valid, and whether it is stale: not used for a minute. ?1 hash of the token, ?2 seconds
-- after which an idle session ends, ?3 seconds after which every session ends.
SELECT name, seen_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 minute') AS stale
FROM outbox_session
WHERE token_hash = ?1 AND seen_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('-%.3f seconds', ?2))
  AND began_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('-%.3f seconds', ?3))
