-- Blame: so many losses count against an event whose lease is still ours; one more, if the lease is lost.
-- $1 id, $2 token, $3 losses.
UPDATE {schema}.outbox_event
SET claims = $3
WHERE id = $1 AND claimed_by = $2 AND status = 'pending'
