-- Returns a row if the record is still in the transaction. It is gone if the handler rolled back; on PostgreSQL the statement
-- fails if the handler ignored an error, which would turn the commit into a rollback.
SELECT 1 FROM inbox_event WHERE consumer = $1 AND id = $2
