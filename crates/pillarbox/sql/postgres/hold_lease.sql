-- Turns locks into leases for events without a fast response. $1 ids, $2 token, $3 seconds.
UPDATE {schema}.outbox_event
SET claimed_by = $2, next_attempt_at = clock_timestamp() + $3 * interval '1 second', updated_at = clock_timestamp()
WHERE id = ANY ($1) AND status = 'pending' AND claimed_by IS NULL
