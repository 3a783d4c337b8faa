-- Fail: turns events into dead letters, with the reason $2. Events that are being sent or were delivered stay. With $3, events
-- that have changed since then stay, too.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now), given_up AS (
    UPDATE {schema}.outbox_event
    SET status = 'failed', claims = 0, error_message = $2, parked_on = NULL, claimed_by = NULL, next_attempt_at = NULL,
        updated_at = clock.now
    FROM clock
    WHERE id = ANY ($1) AND status = 'pending' AND ($3::timestamptz IS NULL OR updated_at < $3)
      AND NOT (parked_on IS NULL AND claimed_by IS NOT NULL AND next_attempt_at > clock.now)
    RETURNING id
), deliveries AS (
    UPDATE {schema}.outbox_delivery SET status = 'failed', error = $2, next_attempt_at = NULL, parked = false
    FROM given_up WHERE event_id = given_up.id AND status = 'pending'
)
SELECT event.id, CASE WHEN given_up.id IS NOT NULL THEN 'failed' WHEN event.status = 'failed' THEN 'already'
                      WHEN event.status = 'delivered' THEN 'delivered' ELSE 'being_sent' END AS answer
FROM {schema}.outbox_event AS event LEFT JOIN given_up ON given_up.id = event.id
WHERE event.id = ANY ($1)
