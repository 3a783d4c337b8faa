-- Records an event; no row is written if it was handled before. It is the first statement of its transaction, so that it takes
-- the write lock at once: a lock that begins as a read cannot wait.
INSERT INTO inbox_event (consumer, id) VALUES (?1, ?2) ON CONFLICT DO NOTHING
