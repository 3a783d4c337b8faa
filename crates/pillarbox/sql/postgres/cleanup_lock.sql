-- Cleanup: one relay at a time, until the transaction ends. A cleanup that a crash undoes is repeated, so its commit does not
-- wait for the disk. Whatever the planner's statistics are, it must not read whole tables.
SELECT pg_try_advisory_xact_lock(hashtextextended('pillarbox cleanup {schema}', 0))
FROM (SELECT set_config('synchronous_commit', 'off', true), set_config('enable_seqscan', 'off', true)) AS settings
