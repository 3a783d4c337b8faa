-- Audit: writes an entry. $1 who, $2 what, $3 the target, $4 the number of events.
INSERT INTO {schema}.outbox_audit (who, what, target, events) VALUES ($1, $2, $3, $4) RETURNING id
