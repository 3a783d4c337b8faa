-- Cleanup: the number of events that are old enough, each half by its index.
-- $1 seconds since delivered, $2 seconds since failed.
SELECT (SELECT count(*) FROM {schema}.outbox_event
        WHERE status = 'delivered' AND delivered_at <= (SELECT clock_timestamp() - $1 * interval '1 second'))
     + (SELECT count(*) FROM {schema}.outbox_event
        WHERE status = 'failed' AND updated_at <= (SELECT clock_timestamp() - $2 * interval '1 second'))
