-- Claim for handlers in Python: as claim.sql, but only events of types that have a handler, never recorded Celery tasks,
-- and also what a relay found no route for. ?1 limit, ?2 seconds of the lease, ?3 token, ?4 a JSON array of GLOB patterns
-- of event types, ?5 losses before an event goes alone, ?6 losses before it is failed (the sweep does that).
-- One statement, so that it needs no BEGIN IMMEDIATE, which Django does not have everywhere.
UPDATE outbox_event
SET claims = claims + (claimed_by IS NOT NULL),
    claimed_by = ?3,
    parked_on = NULL,
    next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('+%.3f seconds', ?2)),
    updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE seq IN (
    -- Two halves, because only by itself each finds its partial index.
    WITH due AS MATERIALIZED (
        SELECT seq, next_attempt_at, claims + (claimed_by IS NOT NULL) AS losses
        FROM outbox_event
        WHERE status = 'pending' AND parked_on IS NULL AND next_attempt_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
          AND claims + (claimed_by IS NOT NULL) < ?6
          AND aggregate_type <> 'celery'
          AND EXISTS (SELECT 1 FROM json_each(?4) WHERE event_type GLOB value)
        ORDER BY next_attempt_at, seq
        LIMIT ?1
    ), unrouted AS MATERIALIZED (
        SELECT seq, next_attempt_at, claims AS losses
        FROM outbox_event
        WHERE parked_on = 'unrouted' AND status = 'pending' AND aggregate_type <> 'celery'
          AND EXISTS (SELECT 1 FROM json_each(?4) WHERE event_type GLOB value)
        ORDER BY next_attempt_at, seq
        LIMIT ?1
    ), placed AS (
        SELECT seq, row_number() OVER line AS place, count(*) FILTER (WHERE losses >= ?5) OVER line AS suspects
        FROM (SELECT * FROM due UNION ALL SELECT * FROM unrouted)
        WINDOW line AS (ORDER BY next_attempt_at, seq ROWS UNBOUNDED PRECEDING)
    )
    -- A suspect at the front is claimed alone; otherwise everything before the first suspect.
    SELECT seq FROM placed WHERE place = 1 OR (suspects = 0 AND place <= ?1)
)
RETURNING id
