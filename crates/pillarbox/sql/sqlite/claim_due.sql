-- Claim, first half: due events, oldest first, inside BEGIN IMMEDIATE. ?1 limit, ?2 bytes,
-- ?3 losses before an event goes alone, ?4 losses before it is failed (the sweep does that).
WITH due AS MATERIALIZED (
    SELECT *, claims + (claimed_by IS NOT NULL) AS losses
    FROM outbox_event
    WHERE status = 'pending' AND parked_on IS NULL AND next_attempt_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
      AND claims + (claimed_by IS NOT NULL) < ?4
    ORDER BY next_attempt_at, seq
    LIMIT ?1
), placed AS (
    SELECT *, row_number() OVER line AS place, sum(octet_length(payload)) OVER line - octet_length(payload) AS bytes_before,
           count(*) FILTER (WHERE losses >= ?3) OVER line AS suspects
    FROM due
    WINDOW line AS (ORDER BY next_attempt_at, seq ROWS UNBOUNDED PRECEDING)
)
-- A suspect at the front is claimed alone; otherwise everything before the first suspect.
SELECT id, seq, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key, attempts, max_attempts,
       losses AS claims, created_at,
       (SELECT json_group_array(json_object(
                   'destination', destination, 'status', status, 'attempts', attempts, 'error', error,
                   'due_in', max(0, (coalesce(julianday(next_attempt_at), 0) - julianday('now')) * 86400.0)))
        FROM outbox_delivery WHERE event_id = placed.id) AS deliveries
FROM placed
WHERE place = 1 OR (suspects = 0 AND bytes_before < ?2)
ORDER BY next_attempt_at, seq
