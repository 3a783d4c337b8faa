-- Cleanup: whether one more event is old enough. ?1 seconds since delivered, ?2 seconds since failed.
SELECT EXISTS (SELECT 1 FROM outbox_event
               WHERE status = 'delivered'
                 AND delivered_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('-%.3f seconds', ?1)))
    OR EXISTS (SELECT 1 FROM outbox_event
               WHERE status = 'failed' AND updated_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('-%.3f seconds', ?2))) AS more
