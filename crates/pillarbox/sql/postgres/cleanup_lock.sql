-- Cleanup: one relay at a time, until the transaction ends.
SELECT pg_try_advisory_xact_lock(hashtextextended('pillarbox cleanup {schema}', 0))
