-- Session: deletes ended sessions, and all but the ?3 most recently used. ?1 seconds after which an idle session ends,
-- ?2 seconds after which every session ends.
DELETE FROM outbox_session
WHERE seen_at <= utc_timestamp(6) - INTERVAL least(?1, 3e9) * 1e6 MICROSECOND OR began_at <= utc_timestamp(6) - INTERVAL least(?2, 3e9) * 1e6 MICROSECOND
   OR token_hash NOT IN (SELECT newest.token_hash
                         FROM (SELECT token_hash FROM outbox_session ORDER BY seen_at DESC LIMIT ?3) AS newest)
