-- Records an event; no row is written if it was handled before. While another transaction holds the same key, the statement
-- waits for it: a commit makes this a duplicate, a rollback lets it go on. Returns what only this row has, for `committed` and `forget`.
INSERT INTO inbox_event (consumer, id) VALUES ($1, $2) ON CONFLICT DO NOTHING
RETURNING xmin::text
