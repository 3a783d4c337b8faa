-- Records an event; no row is written if it was handled before. While another transaction holds the same key, the statement
-- waits for it: a commit makes this a duplicate, a rollback lets it go on.
-- IGNORE, because the number of rows of ON DUPLICATE KEY UPDATE depends on a flag of the connection.
INSERT IGNORE INTO inbox_event (consumer, id, received_at) VALUES (?, ?, @inbox_received_at)
