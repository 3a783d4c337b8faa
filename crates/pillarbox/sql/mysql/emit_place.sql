-- Emit: the place and the time of the event that this session has just written.
SELECT seq, created_at FROM outbox_event WHERE seq = last_insert_id()
