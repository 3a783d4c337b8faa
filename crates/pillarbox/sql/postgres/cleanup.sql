-- Cleanup: one batch of terminal events, by their age since they became terminal, with all that is kept of them.
-- $1 seconds since delivered, $2 seconds since failed, $3 limit, $4 and $5 from which moments on: those of the batch before,
-- because index entries of what was deleted are walked over as long as a transaction somewhere may still see it.
-- Ordered, so that each half walks its index and stops. One more than the limit is looked for, and not deleted.
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
    -- They are locked, so that they stay where they are.
    DELETE FROM {schema}.outbox_event WHERE ctid = ANY (ARRAY(SELECT ctid FROM old)) RETURNING id
), deliveries AS (
    DELETE FROM {schema}.outbox_delivery USING old WHERE event_id = old.id
), attempts AS (
    DELETE FROM {schema}.outbox_attempt USING old WHERE event_id = old.id
)
SELECT (SELECT count(*) FROM events) AS deleted, (SELECT count(*) FROM found) > $3 AS more,
       (SELECT max(delivered_at) FROM old) AS delivered_until, (SELECT max(failed_at) FROM old) AS failed_until
