-- Returns the destinations that people have paused.
SELECT destination, paused_at, paused_by FROM outbox_paused ORDER BY destination
