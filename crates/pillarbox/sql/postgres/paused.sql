-- Returns the destinations that people have paused.
SELECT destination::text, paused_at, paused_by::text FROM {schema}.outbox_paused ORDER BY destination
