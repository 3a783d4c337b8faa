-- Get: one event with all its columns.
SELECT id, seq, aggregate_type, aggregate_id, event_type, status, idempotency_key, attempts, max_attempts, claims,
       next_attempt_at, parked_on, delivered_at, error_message, created_at, updated_at, payload, headers,
       CASE WHEN status <> 'pending' THEN status
            WHEN parked_on IS NOT NULL THEN 'parked'
            WHEN next_attempt_at <= utc_timestamp(6) THEN 'due'
            WHEN claimed_by IS NOT NULL THEN 'sending'
            ELSE 'scheduled' END AS state,
       CASE WHEN outbox_event.status = 'failed' THEN coalesce(
           (SELECT destination FROM outbox_delivery
            WHERE event_id = outbox_event.id AND status = 'failed' ORDER BY destination LIMIT 1),
           (SELECT destination FROM outbox_attempt WHERE event_id = outbox_event.id ORDER BY number DESC LIMIT 1)) END AS failed_on
FROM outbox_event
WHERE id = ?1
