-- What is held by a lock and was not answered soon is held by a lease from now on. $1 ids, $2 token, $3 seconds.
UPDATE {schema}.outbox_event
SET claimed_by = $2, next_attempt_at = clock_timestamp() + $3 * interval '1 second', updated_at = clock_timestamp()
WHERE id = ANY ($1) AND status = 'pending' AND claimed_by IS NULL
