-- Find: when the newest event was emitted that is not among the newest ?1 events; no row if there is none.
SELECT created_at FROM outbox_event ORDER BY seq DESC LIMIT 1 OFFSET ?1
