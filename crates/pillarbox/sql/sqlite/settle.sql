-- Settle: one statement for a whole batch, each row only if the lease still holds it.
-- ?1 a JSON array of [id, token, change, attempts, seconds until due, parked on, error].
UPDATE outbox_event
SET status = CASE verdict.change WHEN 'deliver' THEN 'delivered' WHEN 'fail' THEN 'failed' ELSE 'pending' END,
    -- A relay that settles has survived the event, so its losses are reset. A release proves nothing.
    attempts = CASE verdict.change WHEN 'release' THEN outbox_event.attempts ELSE verdict.attempts END,
    claims = CASE verdict.change WHEN 'release' THEN claims ELSE 0 END,
    next_attempt_at = CASE WHEN verdict.change IN ('deliver', 'fail') THEN NULL
        ELSE strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('+%.3f seconds', verdict.after)) END,
    claimed_by = NULL,
    parked_on = verdict.parked_on,
    delivered_at = CASE verdict.change WHEN 'deliver' THEN strftime('%Y-%m-%dT%H:%M:%fZ', 'now') END,
    error_message = CASE verdict.change WHEN 'release' THEN error_message ELSE verdict.error END,
    updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
FROM (
    SELECT value ->> 0 AS id, value ->> 1 AS token, value ->> 2 AS change, value ->> 3 AS attempts, value ->> 4 AS after,
           value ->> 5 AS parked_on, value ->> 6 AS error
    FROM json_each(?1)
) AS verdict
WHERE outbox_event.id = verdict.id AND claimed_by = verdict.token AND status = 'pending'
RETURNING id
