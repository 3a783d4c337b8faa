-- Cleanup: deletes one batch of terminal events, by their age since they became terminal, with their deliveries and attempts.
-- $1 seconds since delivered, $2 seconds since failed, $3 limit, $4 and $5 the times to begin at. They are those of the last
-- batch, because index entries of deleted events are walked over as long as an open transaction may still see them.
-- Ordered, so that each half walks its index and stops. It searches for one more event than the limit, and does not delete it.
WITH delivered AS MATERIALIZED (
    SELECT ctid, id, delivered_at, NULL::timestamptz AS failed_at FROM {schema}.outbox_event
    WHERE status = 'delivered' AND delivered_at <= (SELECT clock_timestamp() - $1 * interval '1 second')
      AND delivered_at >= $4::timestamptz
    ORDER BY delivered_at
    LIMIT $3 + 1
    FOR UPDATE SKIP LOCKED
), failed AS MATERIALIZED (
    SELECT ctid, id, NULL::timestamptz AS delivered_at, updated_at AS failed_at FROM {schema}.outbox_event
    WHERE status = 'failed' AND updated_at <= (SELECT clock_timestamp() - $2 * interval '1 second')
      AND updated_at >= $5::timestamptz
    ORDER BY updated_at
    LIMIT $3 + 1
    FOR UPDATE SKIP LOCKED
), found AS MATERIALIZED (
    SELECT * FROM delivered UNION ALL SELECT * FROM failed LIMIT $3 + 1
), old AS MATERIALIZED (
    SELECT * FROM found LIMIT $3
), events AS (
    -- The rows are locked, so their ctid does not change.
    DELETE FROM {schema}.outbox_event WHERE ctid = ANY (ARRAY(SELECT ctid FROM old)) RETURNING id
), deliveries AS (
    DELETE FROM {schema}.outbox_delivery USING old WHERE event_id = old.id
), attempts AS (
    DELETE FROM {schema}.outbox_attempt USING old WHERE event_id = old.id
)
SELECT (SELECT count(*) FROM events) AS deleted, (SELECT count(*) FROM found) > $3 AS more,
       (SELECT max(delivered_at) FROM old) AS delivered_until, (SELECT max(failed_at) FROM old) AS failed_until
