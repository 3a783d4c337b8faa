-- Claim, second half: writes the lease. ?1 a JSON array of ids, ?2 seconds, ?3 token, ?4 losses before an event is sent alone.
UPDATE outbox_event
SET claims = claims + (claimed_by IS NOT NULL)
             -- For an event that is sent alone, a loss counts only after its relay reported that nothing else is sent:
             -- blame.sql.
             - (claims + (claimed_by IS NOT NULL) >= ?4),
    claimed_by = ?3,
    next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('+%.3f seconds', ?2)),
    updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE id IN (SELECT value FROM json_each(?1))
