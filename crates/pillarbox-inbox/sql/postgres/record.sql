-- Records an event; no row is written if it was handled before. While another transaction holds the same key, the statement
-- waits for it: a commit makes this a duplicate, a rollback lets it go on.
INSERT INTO inbox_event (consumer, id) VALUES ($1, $2) ON CONFLICT DO NOTHING
