-- Claim with order = "aggregate": the wall of each aggregate of a page, that is, the first event of the aggregate that must be
-- sent first and is not on the page. ?1 a JSON array of [any seq of the aggregate, its last seq on the page], ?2 a JSON array of
-- the seqs of the page and of events that the relay sends first, ?3 whether a failed event blocks its aggregate.
SELECT asked.place,
       (SELECT event.seq FROM outbox_event AS event FORCE INDEX (outbox_event_order)
        WHERE event.aggregate_type = one.aggregate_type AND event.aggregate_id = one.aggregate_id
          AND event.status = 'pending' AND event.seq < asked.last
          -- A delayed event that was never tried blocks no other event. It is unchanged since its emit, and its due time is after
          -- its emit: not only after a clock that was set back.
          AND NOT (event.next_attempt_at > utc_timestamp(6)
                   AND event.next_attempt_at > event.updated_at AND event.updated_at = event.created_at
                   AND event.attempts = 0
                   AND event.claims = 0 AND event.claimed_by IS NULL AND event.parked_on IS NULL
                   AND event.error_message = '')
          AND event.seq NOT IN (SELECT seen.seq FROM (SELECT DISTINCT page.seq FROM json_table(?2, '$[*]' COLUMNS (seq BIGINT PATH '$')) AS page) AS seen)
        ORDER BY event.seq LIMIT 1) AS pending,
       (SELECT event.seq FROM outbox_event AS event FORCE INDEX (outbox_event_order)
        WHERE ?3 AND event.aggregate_type = one.aggregate_type AND event.aggregate_id = one.aggregate_id
          AND event.status = 'failed' AND event.seq < asked.last
        ORDER BY event.seq LIMIT 1) AS failed
FROM json_table(?1, '$[*]' COLUMNS (place FOR ORDINALITY, seq BIGINT PATH '$[0]', last BIGINT PATH '$[1]')) AS asked
STRAIGHT_JOIN outbox_event AS one FORCE INDEX (PRIMARY) ON one.seq = asked.seq
