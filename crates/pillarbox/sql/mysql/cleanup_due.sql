-- Cleanup, first part: locks one batch of terminal events, by their age since they became terminal, each half by the index.
-- ?1 seconds since delivered, ?2 seconds since failed, ?3 limit. Batches that run at once lock different events.
(SELECT id FROM outbox_event FORCE INDEX (outbox_event_done)
 WHERE status = 'delivered' AND done_at <= utc_timestamp(6) - INTERVAL least(?1, 3e9) * 1e6 MICROSECOND
 ORDER BY done_at, seq LIMIT ?3 FOR UPDATE SKIP LOCKED)
UNION ALL
(SELECT id FROM outbox_event FORCE INDEX (outbox_event_done)
 WHERE status = 'failed' AND done_at <= utc_timestamp(6) - INTERVAL least(?2, 3e9) * 1e6 MICROSECOND
 ORDER BY done_at, seq LIMIT ?3 FOR UPDATE SKIP LOCKED)
LIMIT ?3
