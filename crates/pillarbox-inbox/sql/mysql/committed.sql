-- Returns a row after a rollback if the record is still there: the handler has committed it by itself. It is not the record of another
-- request, which may have taken over since, and which `forget` alone would wait for.
SELECT 1 FROM inbox_event WHERE consumer = ? AND id = ? AND received_at = @inbox_received_at
