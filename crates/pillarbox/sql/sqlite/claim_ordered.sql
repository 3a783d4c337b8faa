-- Claim with order = "aggregate", first half: an event only after all earlier events of its aggregate, or together with them.
-- ?1 limit, ?2 bytes, ?3 losses before an event is a suspect, ?4 losses from which on it is left out, ?5 whether a failed event
-- blocks its aggregate, ?6 the number of due events to read, ?7 and ?8 the place after which to begin,
-- ?9 a JSON array of the seqs of events that the relay sends first.
WITH clock AS MATERIALIZED (
    SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now') AS now
), seen AS MATERIALIZED (
    SELECT aggregate_type, aggregate_id, seq, next_attempt_at
    FROM outbox_event
    WHERE status = 'pending' AND parked_on IS NULL AND next_attempt_at <= (SELECT now FROM clock)
      AND (next_attempt_at, seq) > (?7, ?8)
      AND claims + (claimed_by IS NOT NULL) < ?4
    ORDER BY next_attempt_at, seq
    LIMIT ?6
), lined AS MATERIALIZED (
    SELECT seen.*, row_number() OVER aggregate AS nth, max(next_attempt_at) OVER aggregate AS turn,
           max(seq) OVER (PARTITION BY aggregate_type, aggregate_id) AS last
    FROM seen
    WINDOW aggregate AS (PARTITION BY aggregate_type, aggregate_id ORDER BY seq)
), walled AS MATERIALIZED (
    -- The wall: the first event of the aggregate that must be sent first and is not among the events seen.
    SELECT lined.*,
           CASE nth WHEN 1 THEN
               (SELECT event.seq FROM outbox_event AS event
                WHERE event.aggregate_type = lined.aggregate_type AND event.aggregate_id = lined.aggregate_id
                  AND event.seq < lined.last AND event.status <> 'delivered'
                  AND CASE event.status
                      WHEN 'failed' THEN ?5
                      -- A delayed event that was never tried blocks no other event. It is unchanged since its emit, and its due
                      -- time is after its emit: not only after a clock that was set back.
                      ELSE NOT (event.next_attempt_at > (SELECT now FROM clock)
                                AND event.next_attempt_at > event.updated_at AND event.updated_at = event.created_at
                                AND event.attempts = 0
                                AND event.claims = 0 AND event.claimed_by IS NULL AND event.parked_on IS NULL
                                AND event.error_message = '')
                      END
                  AND event.seq NOT IN (SELECT seq FROM seen UNION ALL SELECT value FROM json_each(?9))
                ORDER BY event.seq
                LIMIT 1)
           END AS wall
    FROM lined
), free AS MATERIALIZED (
    -- An event's turn is never before the turn of its predecessors. So any prefix of this line is a prefix of each aggregate.
    SELECT seq, turn
    FROM (SELECT walled.*, max(wall) OVER (PARTITION BY aggregate_type, aggregate_id) AS first_wall FROM walled)
    WHERE first_wall IS NULL OR seq < first_wall
    ORDER BY turn, seq
    LIMIT ?1
), classed AS (
    SELECT event.*, turn, event.claims + (event.claimed_by IS NOT NULL) AS losses,
           max(event.claims + (event.claimed_by IS NOT NULL), ?3 - 1) AS class,
           first_value(max(event.claims + (event.claimed_by IS NOT NULL), ?3 - 1)) OVER (ORDER BY turn, free.seq) AS first_class
    FROM free CROSS JOIN outbox_event AS event ON event.seq = free.seq
), placed AS (
    SELECT *, row_number() OVER line AS place, sum(octet_length(payload)) OVER line - octet_length(payload) AS bytes_before,
           count(*) FILTER (WHERE class <> first_class) OVER line AS others
    FROM classed
    WINDOW line AS (ORDER BY turn, seq ROWS UNBOUNDED PRECEDING)
), picked AS (
    -- A suspect is claimed with events that have as many losses: 64 of them, then 8, then one. The claim is a prefix of the
    -- line, so that no event is taken before an earlier event of its aggregate.
    SELECT id, seq, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key, attempts, max_attempts,
           losses AS claims, created_at, turn,
           (SELECT json_group_array(json_object(
                       'destination', destination, 'status', status, 'attempts', attempts, 'error', error, 'parked', parked,
                       'due_in', max(0, (coalesce(julianday(next_attempt_at), 0) - julianday('now')) * 86400.0)))
            FROM outbox_delivery WHERE event_id = placed.id) AS deliveries
    FROM placed
    WHERE place = 1 OR (others = 0 AND bytes_before < ?2 AND (class < ?3 OR place <= 64 >> (3 * (class - ?3))))
), page AS (
    -- The number of events that were read, the number that are not blocked, and the last place, even if none was taken.
    SELECT (SELECT count(*) FROM seen) AS seen, (SELECT count(*) FROM free) AS free,
           (SELECT next_attempt_at FROM seen ORDER BY next_attempt_at DESC, seq DESC LIMIT 1) AS seen_until,
           (SELECT seq FROM seen ORDER BY next_attempt_at DESC, seq DESC LIMIT 1) AS seen_seq
)
SELECT picked.*, page.seen, page.free, page.seen_until, page.seen_seq
FROM page LEFT JOIN picked ON true
ORDER BY picked.turn, picked.seq
