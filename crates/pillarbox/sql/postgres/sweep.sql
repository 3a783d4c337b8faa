-- Sweep: fails events whose relays died too often while they sent nothing else.
-- $1 losses before an event is failed, $2 the error.
WITH swept AS (
    UPDATE {schema}.outbox_event AS event
    SET status = 'failed', next_attempt_at = NULL, claimed_by = NULL, error_message = $2,
        claims = claims + (claimed_by IS NOT NULL)::int, updated_at = clock_timestamp()
    WHERE id IN (
        SELECT id FROM {schema}.outbox_event
        -- CASE, so that the index of due events, which may be long, cannot be used.
        WHERE status = 'pending' AND CASE WHEN parked_on IS NULL THEN next_attempt_at <= (SELECT clock_timestamp()) END
          AND claims >= 4 -- as in outbox_event_suspect
          AND claims + (claimed_by IS NOT NULL)::int >= $1
        FOR NO KEY UPDATE SKIP LOCKED
    )
    RETURNING event.id, event.seq, event.aggregate_type, event.aggregate_id, event.event_type, event.payload::text,
              event.headers::text, event.idempotency_key, event.attempts, event.max_attempts, event.claims::int,
              event.created_at
), deliveries AS (
    UPDATE {schema}.outbox_delivery SET status = 'failed', error = $2, next_attempt_at = NULL, parked = false
    FROM swept WHERE event_id = swept.id AND status = 'pending'
)
SELECT * FROM swept
