-- Claim with order = "aggregate": an event only after all earlier events of its aggregate, or together with them.
-- $1 limit, $2 bytes, $3 seconds of the lease, $4 token, $5 losses before an event is a suspect, $6 losses from which on it is
-- left out, $7 and $8 the place after which to begin, $9 whether a failed event blocks its aggregate, $10 the number of due
-- events to read, $11 the seqs of events that the relay sends first. Names are compared byte by byte, as in the index outbox_event_order: that is twice as fast.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), seen AS MATERIALIZED (
    SELECT id, aggregate_type COLLATE "C" AS aggregate_type, aggregate_id COLLATE "C" AS aggregate_id, seq, next_attempt_at
    FROM {schema}.outbox_event
    WHERE status = 'pending' AND parked_on IS NULL AND next_attempt_at <= (SELECT now FROM clock)
      AND (next_attempt_at, seq) > ($7, $8)
      AND claims + (claimed_by IS NOT NULL)::int < $6
    ORDER BY next_attempt_at, seq
    LIMIT $10
), lined AS (
    SELECT seen.*, row_number() OVER aggregate AS nth, max(next_attempt_at) OVER aggregate AS turn,
           max(seq) OVER (PARTITION BY aggregate_type, aggregate_id) AS last
    FROM seen
    WINDOW aggregate AS (PARTITION BY aggregate_type, aggregate_id ORDER BY seq)
), walled AS (
    -- The wall: the first event of the aggregate that must be sent first and is not among the events seen.
    SELECT lined.*,
           CASE nth WHEN 1 THEN
               (SELECT event.seq FROM {schema}.outbox_event AS event
                WHERE event.aggregate_type COLLATE "C" = lined.aggregate_type
                  AND event.aggregate_id COLLATE "C" = lined.aggregate_id
                  AND event.seq < lined.last AND event.status || '' <> 'delivered' -- as in outbox_event_order
                  AND CASE event.status
                      WHEN 'failed' THEN $9
                      -- A delayed event that was never tried blocks no other event. It is unchanged since its emit (a plain
                      -- INSERT reads the clock twice), and its due time is after its emit: not just after a clock set back.
                      ELSE NOT (event.next_attempt_at > (SELECT now FROM clock)
                                AND event.next_attempt_at > event.updated_at
                                AND event.updated_at BETWEEN event.created_at AND event.created_at + interval '1 second'
                                AND event.attempts = 0
                                AND event.claims = 0 AND event.claimed_by IS NULL AND event.parked_on IS NULL
                                AND event.error_message = '')
                      END
                  AND event.seq NOT IN (SELECT seq FROM seen UNION ALL SELECT unnest($11::bigint[]))
                ORDER BY event.seq
                LIMIT 1)
           END AS wall
    FROM lined
), free AS MATERIALIZED (
    -- An event's turn is never before the turn of its predecessors. So any prefix of this line is a prefix of each aggregate.
    SELECT id, aggregate_type, aggregate_id, seq, nth, turn
    FROM (SELECT walled.*, max(wall) OVER (PARTITION BY aggregate_type, aggregate_id) AS first_wall FROM walled) AS one
    WHERE first_wall IS NULL OR seq < first_wall
    ORDER BY turn, seq
    LIMIT $1
), locked AS MATERIALIZED (
    -- Only events that may be taken are locked, because a lock is a write. Events that another relay has taken since are left
    -- out. CASE, so that only the index of the ids can be used: without statistics of a backlog, the planner would use another.
    SELECT free.*, event.losses, event.bytes
    FROM free CROSS JOIN LATERAL (
        SELECT claims + (claimed_by IS NOT NULL)::int AS losses,
               CASE WHEN pg_column_compression(payload) IS NULL THEN pg_column_size(payload)
                    ELSE octet_length(payload::text) END AS bytes
        FROM {schema}.outbox_event
        WHERE id = free.id
          AND CASE WHEN status = 'pending' AND parked_on IS NULL THEN next_attempt_at <= (SELECT now FROM clock) END
          AND claims + (claimed_by IS NOT NULL)::int < $6
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS event
), ours AS (
    -- After an event that another relay has taken, no later event of its aggregate may be taken.
    SELECT locked.*, nth = row_number() OVER (PARTITION BY aggregate_type, aggregate_id ORDER BY seq) AS unbroken
    FROM locked
), classed AS (
    SELECT ours.*, greatest(losses, $5 - 1) AS class,
           first_value(greatest(losses, $5 - 1)) OVER (ORDER BY turn, seq) AS first_class
    FROM ours
    WHERE unbroken
), placed AS (
    SELECT id, turn, losses, class, row_number() OVER line AS place, sum(bytes) OVER line - bytes AS bytes_before,
           count(*) FILTER (WHERE class <> first_class) OVER line AS others
    FROM classed
    WINDOW line AS (ORDER BY turn, seq ROWS UNBOUNDED PRECEDING)
), picked AS (
    -- A suspect is claimed with events that have as many losses: 64 of them, then 8, then one. The claim is a prefix of the
    -- line, so that no event is taken before an earlier event of its aggregate.
    SELECT id, turn, losses FROM placed
    WHERE place = 1
       OR (others = 0 AND bytes_before < $2 AND (class < $5 OR place <= 64 >> least(3 * (class - $5), 30)))
), taken AS (
    UPDATE {schema}.outbox_event AS event
    SET claimed_by = $4,
        -- For an event that is sent alone, a loss counts only after its relay reported that nothing else is sent: blame.sql.
        claims = picked.losses - (picked.losses >= $5 + 2)::int,
        next_attempt_at = clock_timestamp() + $3 * interval '1 second',
        updated_at = clock_timestamp()
    FROM picked, (SELECT set_config('synchronous_commit', 'off', true)) AS a_lost_claim_is_no_loss
    WHERE event.id = picked.id
    RETURNING event.id, event.seq, event.aggregate_type, event.aggregate_id, event.event_type, event.payload::text,
              event.headers::text, event.idempotency_key, event.attempts, event.max_attempts, picked.losses AS claims,
              event.created_at, picked.turn AS due_at,
              (SELECT jsonb_agg(jsonb_build_object(
                          'destination', destination, 'status', status, 'attempts', attempts, 'error', error, 'parked', parked,
                          'due_in', least(greatest(0, extract(epoch FROM next_attempt_at) - extract(epoch FROM clock_timestamp())), 1e9))
                      ORDER BY destination)
               FROM {schema}.outbox_delivery WHERE event_id = event.id)::text AS deliveries
), page AS (
    -- The number of events that were read, the number that are not blocked, and the last place, even if none was taken.
    SELECT (SELECT count(*) FROM seen) AS seen, (SELECT count(*) FROM free) AS free, last.next_attempt_at AS seen_until, last.seq AS seen_seq
    FROM (SELECT true) AS always
    LEFT JOIN (SELECT next_attempt_at, seq FROM seen ORDER BY next_attempt_at DESC, seq DESC LIMIT 1) AS last ON true
)
SELECT taken.*, page.seen, page.free, page.seen_until, page.seen_seq FROM page LEFT JOIN taken ON true
