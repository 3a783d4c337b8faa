-- Deletes the record of a handler that committed by itself and then failed, so that the event is handled again.
DELETE FROM inbox_event WHERE consumer = $1 AND id = $2 AND xmin::text = $3
