-- Claim, second half: the lease. ?1 a JSON array of ids, ?2 seconds, ?3 token, ?4 losses before an event goes alone.
UPDATE outbox_event
SET claims = claims + (claimed_by IS NOT NULL)
             -- A loss of what goes alone counts only when its relay has said that nothing else is sent: blame.sql.
             - (claims + (claimed_by IS NOT NULL) >= ?4),
    claimed_by = ?3,
    next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('+%.3f seconds', ?2)),
    updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE id IN (SELECT value FROM json_each(?1))
