-- Returns a row after a rollback if the record is still there: the handler has committed it by itself. It is not the record of another
-- request, which may have taken over since.
SELECT 1 FROM inbox_event WHERE consumer = $1 AND id = $2 AND xmin::text = $3
