-- Claim, first half: due events, oldest first, inside BEGIN IMMEDIATE. ?1 limit, ?2 bytes,
-- ?3 losses before an event is a suspect, ?4 losses from which on it is left out.
WITH due AS MATERIALIZED (
    SELECT *, claims + (claimed_by IS NOT NULL) AS losses
    FROM outbox_event
    WHERE status = 'pending' AND parked_on IS NULL AND next_attempt_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
      AND claims + (claimed_by IS NOT NULL) < ?4
    ORDER BY next_attempt_at, seq
    LIMIT ?1
), classed AS (
    SELECT *, max(losses, ?3 - 1) AS class,
           first_value(max(losses, ?3 - 1)) OVER (ORDER BY next_attempt_at, seq) AS first_class
    FROM due
), placed AS (
    SELECT *, row_number() OVER line AS place, sum(octet_length(payload)) OVER line - octet_length(payload) AS bytes_before
    FROM classed
    WHERE class = first_class
    WINDOW line AS (ORDER BY next_attempt_at, seq ROWS UNBOUNDED PRECEDING)
)
-- A suspect is claimed with events that have as many losses: 64 of them, then 8, then one.
SELECT id, seq, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key, attempts, max_attempts,
       losses AS claims, created_at,
       (SELECT json_group_array(json_object(
                   'destination', destination, 'status', status, 'attempts', attempts, 'error', error, 'parked', parked,
                   'due_in', max(0, (coalesce(julianday(next_attempt_at), 0) - julianday('now')) * 86400.0)))
        FROM outbox_delivery WHERE event_id = placed.id) AS deliveries
FROM placed
WHERE place = 1 OR (bytes_before < ?2 AND (class < ?3 OR place <= 64 >> (3 * (class - ?3))))
ORDER BY next_attempt_at, seq
