-- Claim, third part: the claimed events, with their stored deliveries. ?1 the array of claim.sql.
SELECT event.id, event.seq, event.aggregate_type, event.aggregate_id, event.event_type, event.payload, event.headers,
       event.idempotency_key, event.attempts, event.max_attempts, event.claims, event.created_at,
       (SELECT json_arrayagg(json_object(
                   'destination', destination, 'status', status, 'attempts', attempts, 'error', error, 'parked', parked,
                   'due_in', greatest(0, coalesce(timestampdiff(MICROSECOND, utc_timestamp(6), next_attempt_at), 0) / 1e6)))
        FROM outbox_delivery WHERE event_id = event.id) AS deliveries
FROM json_table(?1, '$[*]' COLUMNS (seq BIGINT PATH '$[0]')) AS taken
STRAIGHT_JOIN outbox_event AS event FORCE INDEX (PRIMARY) ON event.seq = taken.seq
