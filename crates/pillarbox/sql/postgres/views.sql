-- Views: these events with the columns of lists, in the order of seq. $1 ids.
SELECT id, seq, aggregate_type::text, aggregate_id::text, event_type::text, status::text, idempotency_key::text,
       attempts, max_attempts, claims::int, next_attempt_at, parked_on::text, delivered_at, error_message,
       created_at, updated_at,
       CASE WHEN status <> 'pending' THEN status
            WHEN parked_on IS NOT NULL THEN 'parked'
            WHEN next_attempt_at <= clock_timestamp() THEN 'due'
            WHEN claimed_by IS NOT NULL THEN 'sending'
            ELSE 'scheduled' END AS state,
       CASE WHEN status = 'failed' THEN coalesce(
           (SELECT destination::text FROM {schema}.outbox_delivery
            WHERE event_id = id AND status = 'failed' ORDER BY destination LIMIT 1),
           (SELECT destination::text FROM {schema}.outbox_attempt WHERE event_id = id ORDER BY number DESC LIMIT 1)) END AS failed_on
FROM {schema}.outbox_event
WHERE id = ANY ($1)
ORDER BY seq
