-- Cleanup: one relay at a time, until the transaction ends. A cleanup that a crash takes back is made again, so its commit does not
-- wait for the disk; and whatever the planner remembers of the tables, it must not read them whole.
SELECT pg_try_advisory_xact_lock(hashtextextended('pillarbox cleanup {schema}', 0))
FROM (SELECT set_config('synchronous_commit', 'off', true), set_config('enable_seqscan', 'off', true)) AS settings
