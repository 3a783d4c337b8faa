-- Claim by lock with order = "aggregate": as claim_ordered.sql, but held by this transaction, and nothing is written. What has
-- lost a lease is left to a claim by lease, which counts losses, and is a wall until then; so is what another relay holds.
-- It locks what it looks at, which is cheap where most may be taken; elsewhere claim_ordered.sql is the better one. $1 limit,
-- $2 bytes, $3 whether a failed event blocks its aggregate, $4 how many due events are looked at, $5 and $6 after which one.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), seen AS MATERIALIZED (
    SELECT id, seq, aggregate_type COLLATE "C" AS aggregate_type, aggregate_id COLLATE "C" AS aggregate_id, event_type,
           payload, headers, idempotency_key, attempts, max_attempts, created_at, updated_at, next_attempt_at,
           CASE WHEN pg_column_compression(payload) IS NULL THEN pg_column_size(payload)
                ELSE octet_length(payload::text) END AS bytes
    FROM {schema}.outbox_event
    WHERE status = 'pending' AND parked_on IS NULL AND next_attempt_at <= (SELECT now FROM clock)
      AND (next_attempt_at, seq) > (coalesce($5::timestamptz, '-infinity'), $6::bigint)
      AND claims = 0 AND claimed_by IS NULL
    ORDER BY next_attempt_at, seq
    LIMIT $4
    FOR NO KEY UPDATE SKIP LOCKED
), lined AS (
    SELECT seen.*, row_number() OVER (PARTITION BY aggregate_type, aggregate_id ORDER BY seq DESC) AS nth_last FROM seen
), walled AS (
    -- The wall: the first event of the aggregate that must be sent first and is not among those seen.
    SELECT lined.*,
           CASE nth_last WHEN 1 THEN
               (SELECT event.seq FROM {schema}.outbox_event AS event
                WHERE event.aggregate_type COLLATE "C" = lined.aggregate_type
                  AND event.aggregate_id COLLATE "C" = lined.aggregate_id
                  AND event.seq < lined.seq AND event.status <> 'delivered'
                  AND CASE event.status
                      WHEN 'failed' THEN $3
                      -- One that was emitted for later and never tried blocks nobody.
                      ELSE NOT (event.next_attempt_at > (SELECT now FROM clock) AND event.attempts = 0
                                AND event.claims = 0 AND event.claimed_by IS NULL AND event.parked_on IS NULL
                                AND event.error_message = '')
                      END
                  AND event.id NOT IN (SELECT id FROM seen)
                ORDER BY event.seq
                LIMIT 1)
           END AS wall
    FROM lined
), free AS MATERIALIZED (
    -- By seq: any beginning of this line is a beginning of each aggregate.
    SELECT id, seq, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key, attempts, max_attempts,
           created_at, updated_at, next_attempt_at,
           sum(bytes) OVER (ORDER BY seq ROWS UNBOUNDED PRECEDING) - bytes AS bytes_before
    FROM (SELECT walled.*,
                 first_value(wall) OVER (PARTITION BY aggregate_type, aggregate_id ORDER BY seq DESC) AS first_wall
          FROM walled) AS one
    WHERE first_wall IS NULL OR seq < first_wall
    ORDER BY seq
    LIMIT $1
), taken AS (
    SELECT id, seq, aggregate_type, aggregate_id, event_type, payload::text, headers::text, idempotency_key, attempts,
           max_attempts, 0 AS claims, created_at, next_attempt_at AS due_at,
           -- What was never written to since it was emitted has no deliveries, and need not be looked up.
           CASE WHEN updated_at <> created_at THEN
               (SELECT jsonb_agg(jsonb_build_object(
                           'destination', destination, 'status', status, 'attempts', attempts, 'error', error,
                           'due_in', greatest(0, extract(epoch FROM next_attempt_at - clock_timestamp())))
                       ORDER BY destination)
                FROM {schema}.outbox_delivery WHERE event_id = free.id)::text END AS deliveries,
           updated_at = created_at AS fresh
    FROM free
    WHERE bytes_before < $2
), page AS (
    -- How many were looked at, how many of them are not blocked, and up to where: also when none was taken.
    SELECT (SELECT count(*) FROM seen) AS seen, (SELECT count(*) FROM free) AS free, last.next_attempt_at AS seen_until, last.seq AS seen_seq
    FROM (SELECT true) AS always
    LEFT JOIN (SELECT next_attempt_at, seq FROM seen ORDER BY next_attempt_at DESC, seq DESC LIMIT 1) AS last ON true
)
SELECT taken.*, page.seen, page.free, page.seen_until, page.seen_seq FROM page LEFT JOIN taken ON true
ORDER BY taken.seq
