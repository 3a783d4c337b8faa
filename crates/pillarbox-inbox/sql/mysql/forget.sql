-- Deletes the record of a handler that committed by itself and then failed, so that the event is handled again.
DELETE FROM inbox_event WHERE consumer = ? AND id = ? AND received_at = @inbox_received_at
