-- Views: these events with the columns of lists, in the order of seq. ?1 a JSON array of ids.
SELECT id, seq, aggregate_type, aggregate_id, event_type, status, idempotency_key, attempts, max_attempts, claims,
       next_attempt_at, parked_on, delivered_at, error_message, created_at, updated_at,
       CASE WHEN status <> 'pending' THEN status
            WHEN parked_on IS NOT NULL THEN 'parked'
            WHEN next_attempt_at <= utc_timestamp(6) THEN 'due'
            WHEN claimed_by IS NOT NULL THEN 'sending'
            ELSE 'scheduled' END AS state,
       CASE WHEN outbox_event.status = 'failed' THEN coalesce(
           (SELECT destination FROM outbox_delivery
            WHERE event_id = outbox_event.id AND status = 'failed' ORDER BY destination LIMIT 1),
           (SELECT destination FROM outbox_attempt WHERE event_id = outbox_event.id ORDER BY number DESC LIMIT 1)) END AS failed_on
FROM (
    SELECT outbox_event.*
    FROM (SELECT DISTINCT id FROM json_table(?1, '$[*]' COLUMNS (id CHAR(32) CHARACTER SET utf8mb4 PATH '$')) AS given) AS asked
    STRAIGHT_JOIN outbox_event FORCE INDEX (outbox_event_id) ON outbox_event.id = unhex(asked.id)
) AS outbox_event
ORDER BY seq
