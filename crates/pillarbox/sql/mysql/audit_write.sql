-- Audit: writes an entry and returns its id. ?1 who, ?2 what, ?3 the target, ?4 the number of events.
INSERT INTO outbox_audit (who, what, target, events) VALUES (?1, ?2, ?3, ?4);
SELECT CAST(last_insert_id() AS SIGNED) AS id
