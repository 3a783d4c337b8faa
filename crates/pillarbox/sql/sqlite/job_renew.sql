-- Job: renews its lease. ?1 id, ?2 token, ?3 seconds.
UPDATE outbox_job SET lease_until = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('+%.3f seconds', ?3))
WHERE id = ?1 AND claimed_by = ?2 AND state = 'running'
