-- Cleanup: the number of events that are old enough, each half by its index.
-- ?1 seconds since delivered, ?2 seconds since failed.
SELECT (SELECT count(*) FROM outbox_event
        WHERE status = 'delivered' AND delivered_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('-%.3f seconds', ?1)))
     + (SELECT count(*) FROM outbox_event
        WHERE status = 'failed' AND updated_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('-%.3f seconds', ?2)))
