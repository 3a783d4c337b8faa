-- Examine: the indexes of the outbox's tables in this database.
SELECT DISTINCT INDEX_NAME AS name FROM information_schema.STATISTICS
WHERE TABLE_SCHEMA = database() AND TABLE_NAME LIKE 'outbox\\_%'
