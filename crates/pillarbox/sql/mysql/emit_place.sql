-- Emit: the time of an emitted event, by its seq.
SELECT created_at FROM outbox_event WHERE seq = ?
