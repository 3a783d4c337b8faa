-- Cleanup: one batch of terminal events, by their age since they became terminal, with all that is kept of them.
-- $1 seconds since delivered, $2 seconds since failed, $3 limit. Ordered, so that each half walks its index and stops.
WITH delivered AS MATERIALIZED (
    SELECT id FROM {schema}.outbox_event
    WHERE status = 'delivered' AND delivered_at <= (SELECT clock_timestamp() - $1 * interval '1 second')
    ORDER BY delivered_at
    LIMIT $3
    FOR UPDATE SKIP LOCKED
), failed AS MATERIALIZED (
    SELECT id FROM {schema}.outbox_event
    WHERE status = 'failed' AND updated_at <= (SELECT clock_timestamp() - $2 * interval '1 second')
    ORDER BY updated_at
    LIMIT $3
    FOR UPDATE SKIP LOCKED
), old AS MATERIALIZED (
    SELECT id FROM delivered UNION ALL SELECT id FROM failed LIMIT $3
), events AS (
    DELETE FROM {schema}.outbox_event AS event USING old WHERE event.id = old.id RETURNING event.id
), deliveries AS (
    DELETE FROM {schema}.outbox_delivery USING old WHERE event_id = old.id
), attempts AS (
    DELETE FROM {schema}.outbox_attempt USING old WHERE event_id = old.id
)
SELECT count(*) FROM events
