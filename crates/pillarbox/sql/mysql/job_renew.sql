-- Job: renews its lease. ?1 id, ?2 token, ?3 seconds.
UPDATE outbox_job SET lease_until = utc_timestamp(6) + INTERVAL least(?3, 3e9) * 1e6 MICROSECOND
WHERE id = ?1 AND claimed_by = ?2 AND state = 'running'
