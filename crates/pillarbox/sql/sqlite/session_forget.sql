-- Session: those that have ended, and beyond the ?3 that were used last all others. ?1 seconds after which an idle one ends,
-- ?2 seconds after which each ends.
DELETE FROM outbox_session
WHERE seen_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('-%.3f seconds', ?1)) OR began_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('-%.3f seconds', ?2))
   OR token_hash NOT IN (SELECT token_hash FROM outbox_session ORDER BY seen_at DESC LIMIT ?3)
