-- The transactions that other sessions see: a commit can be in the log before it is visible.
SELECT pg_current_snapshot()::text
