-- Session: deletes ended sessions, and all but the ?3 most recently used. ?1 seconds after which an idle session ends,
-- ?2 seconds after which every session ends.
DELETE FROM outbox_session
WHERE seen_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('-%.3f seconds', ?1)) OR began_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('-%.3f seconds', ?2))
   OR token_hash NOT IN (SELECT token_hash FROM outbox_session ORDER BY seen_at DESC LIMIT ?3)
