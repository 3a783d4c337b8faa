-- What people did. ?1 who, ?2 what, ?3 to what, ?4 to how many events.
INSERT INTO outbox_audit (who, what, target, events) VALUES (?1, ?2, ?3, ?4) RETURNING id
