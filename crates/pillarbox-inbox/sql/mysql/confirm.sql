-- Returns a row if the record is still in the transaction. It is gone if the handler rolled back, or
-- if the handler swallowed an error that ended the transaction, such as a deadlock.
SELECT 1 FROM inbox_event WHERE consumer = ? AND id = ?
