-- Renew: extends leases that still hold their events. ?1 a JSON array of [id, token], ?2 seconds.
UPDATE outbox_event
SET next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('+%.3f seconds', ?2)),
    updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE status = 'pending' AND (id, claimed_by) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
RETURNING id
