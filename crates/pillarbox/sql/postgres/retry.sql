-- Retry: makes events due now, with their attempts reset. Events that are being sent or were delivered stay. With $2, events
-- that have changed since then stay, too. The events share one time, so that they are claimed in the order of seq.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now), again AS (
    UPDATE {schema}.outbox_event
    SET status = 'pending', attempts = 0, claims = 0, error_message = '', parked_on = NULL, claimed_by = NULL,
        next_attempt_at = clock.now, updated_at = clock.now
    FROM clock
    WHERE id = ANY ($1) AND status <> 'delivered' AND ($2::timestamptz IS NULL OR updated_at < $2)
      AND NOT (status = 'pending' AND parked_on IS NULL AND claimed_by IS NOT NULL AND next_attempt_at > clock.now)
    RETURNING id
), deliveries AS (
    UPDATE {schema}.outbox_delivery
    SET status = 'pending', attempts = 0, error = '', parked = false, next_attempt_at = clock.now
    FROM again, clock WHERE event_id = again.id AND status <> 'delivered'
)
SELECT event.id, CASE WHEN again.id IS NOT NULL THEN 'due' WHEN event.status = 'delivered' THEN 'delivered'
                      ELSE 'being_sent' END AS answer
FROM {schema}.outbox_event AS event LEFT JOIN again ON again.id = event.id
WHERE event.id = ANY ($1)
