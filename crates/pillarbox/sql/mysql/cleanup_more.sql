-- Cleanup: whether one more event is old enough. ?1 seconds since delivered, ?2 seconds since failed.
SELECT EXISTS (SELECT 1 FROM outbox_event WHERE status = 'delivered' AND done_at <= utc_timestamp(6) - INTERVAL least(?1, 3e9) * 1e6 MICROSECOND)
    OR EXISTS (SELECT 1 FROM outbox_event WHERE status = 'failed' AND done_at <= utc_timestamp(6) - INTERVAL least(?2, 3e9) * 1e6 MICROSECOND) AS more
