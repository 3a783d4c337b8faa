-- Blame: sets the losses that count against an event, if the lease still holds it. A lost lease adds one.
-- ?1 id, ?2 token, ?3 losses.
UPDATE outbox_event
SET claims = ?3
WHERE id = ?1 AND claimed_by = ?2 AND status = 'pending'
