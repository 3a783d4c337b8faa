-- Claim for handlers in Python: as claim.sql, but only events of types that have a handler, never recorded Celery tasks,
-- and also what a relay found no route for. $1 limit, $2 seconds of the lease, $3 token, $4 LIKE patterns of event types,
-- $5 losses before an event goes alone, $6 losses before it is failed (the sweep does that).
WITH due AS MATERIALIZED (
    SELECT id, next_attempt_at, seq, claims + (claimed_by IS NOT NULL)::int AS losses
    FROM {schema}.outbox_event
    WHERE status = 'pending' AND parked_on IS NULL AND next_attempt_at <= (SELECT clock_timestamp())
      AND claims + (claimed_by IS NOT NULL)::int < $6
      AND aggregate_type <> 'celery' AND event_type LIKE ANY ($4)
    ORDER BY next_attempt_at, seq
    LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
), unrouted AS MATERIALIZED (
    SELECT id, next_attempt_at, seq, claims::int AS losses
    FROM {schema}.outbox_event
    WHERE parked_on = 'unrouted' AND status = 'pending' AND aggregate_type <> 'celery' AND event_type LIKE ANY ($4)
    ORDER BY next_attempt_at, seq
    LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
), placed AS (
    SELECT id, losses, row_number() OVER line AS place, count(*) FILTER (WHERE losses >= $5) OVER line AS suspects
    FROM (SELECT * FROM due UNION ALL SELECT * FROM unrouted) AS both_kinds
    WINDOW line AS (ORDER BY next_attempt_at, seq ROWS UNBOUNDED PRECEDING)
), picked AS (
    -- A suspect at the front is claimed alone; otherwise everything before the first suspect.
    SELECT id, losses FROM placed WHERE place = 1 OR (suspects = 0 AND place <= $1)
)
UPDATE {schema}.outbox_event AS event
SET claimed_by = $3,
    claims = picked.losses,
    parked_on = NULL,
    next_attempt_at = clock_timestamp() + $2 * interval '1 second',
    updated_at = clock_timestamp()
FROM picked
WHERE event.id = picked.id
RETURNING event.id
