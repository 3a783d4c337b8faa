-- Walls: for each aggregate with locked events of this transaction, the first event that must be sent first and is not locked
-- by it. It sees commits since the locks were taken. $1 and $2 the aggregates, $3 the last locked event of each, $4 the seqs of all
-- locked events and of events that the relay sends first, $5 whether a failed event blocks its aggregate. Aggregates without a
-- wall are left out of the result.
SELECT held.place - 1 AS place, wall.seq
FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS held (aggregate_type, aggregate_id, last, place)
CROSS JOIN LATERAL (
    SELECT event.seq FROM {schema}.outbox_event AS event
    WHERE event.aggregate_type COLLATE "C" = held.aggregate_type
      AND event.aggregate_id COLLATE "C" = held.aggregate_id
      AND event.seq < held.last AND event.status || '' <> 'delivered' -- as in outbox_event_order
      AND CASE event.status
          WHEN 'failed' THEN $5
          -- A delayed event that was never tried blocks no other event: see claim_ordered.sql.
          ELSE NOT (event.next_attempt_at > (SELECT clock_timestamp()) AND event.next_attempt_at > event.updated_at
                    AND event.updated_at BETWEEN event.created_at AND event.created_at + interval '1 second'
                    AND event.attempts = 0 AND event.claims = 0
                    AND event.claimed_by IS NULL AND event.parked_on IS NULL AND event.error_message = '')
          END
      AND event.seq NOT IN (SELECT unnest($4::bigint[]))
    ORDER BY event.seq
    LIMIT 1
) AS wall
