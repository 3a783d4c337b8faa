-- Settle: one statement for a whole batch, each row only if the lease still holds it. An event without a token was held by a
-- lock; then no other relay may have a lease.
-- A settle that a crash undoes causes a duplicate, not a loss, so its commit does not wait for the disk.
-- $1 ids, $2 tokens, $3 changes, $4 attempts, $5 seconds until due, $6 parked on, $7 errors.
WITH verdict AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::int[], $5::float8[], $6::text[], $7::text[])
        AS verdict (id, token, change, attempts, after, parked_on, error)
)
UPDATE {schema}.outbox_event AS event
SET status = CASE verdict.change WHEN 'deliver' THEN 'delivered' WHEN 'fail' THEN 'failed' ELSE 'pending' END,
    -- A relay that settles has survived the event, so its losses are reset. A release proves nothing. (A park without a
    -- send proves nothing either, but is not told apart.)
    attempts = CASE verdict.change WHEN 'release' THEN event.attempts ELSE verdict.attempts END,
    claims = CASE verdict.change WHEN 'release' THEN event.claims ELSE 0 END,
    next_attempt_at = CASE WHEN verdict.change IN ('deliver', 'fail') THEN NULL
                           ELSE clock.now + verdict.after * interval '1 second' END,
    claimed_by = NULL,
    parked_on = verdict.parked_on,
    delivered_at = CASE verdict.change WHEN 'deliver' THEN clock.now END,
    error_message = CASE verdict.change WHEN 'release' THEN event.error_message ELSE verdict.error END,
    updated_at = clock.now
FROM verdict, (SELECT clock_timestamp() AS now, set_config('synchronous_commit', 'off', true)) AS clock
WHERE event.id = verdict.id AND event.claimed_by IS NOT DISTINCT FROM verdict.token AND event.status = 'pending'
RETURNING event.id
