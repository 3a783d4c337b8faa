-- Cleanup: the number of events that are old enough, each half by its index.
-- ?1 seconds since delivered, ?2 seconds since failed.
SELECT (SELECT count(*) FROM outbox_event
        WHERE status = 'delivered' AND done_at <= utc_timestamp(6) - INTERVAL least(?1, 3e9) * 1e6 MICROSECOND)
     + (SELECT count(*) FROM outbox_event
        WHERE status = 'failed' AND done_at <= utc_timestamp(6) - INTERVAL least(?2, 3e9) * 1e6 MICROSECOND)
