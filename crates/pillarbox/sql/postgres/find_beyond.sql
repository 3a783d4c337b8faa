-- Find: when the newest event was emitted that is not among the newest $1 events by id; no row if there is none.
SELECT created_at FROM {schema}.outbox_event ORDER BY id DESC OFFSET $1 LIMIT 1
