-- What people do, in batches. ?1 the line's id, ?2 how many events more.
UPDATE outbox_audit SET events = coalesce(events, 0) + ?2 WHERE id = ?1
