-- Audit: adds a batch to an entry. ?1 the entry's id, ?2 the number of additional events.
UPDATE outbox_audit SET events = coalesce(events, 0) + ?2 WHERE id = ?1
