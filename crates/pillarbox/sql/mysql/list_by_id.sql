-- List: all events, by id, which follows the time of the writers' clocks. ?11, ?12 between these ids.
FORCE INDEX (outbox_event_id)
WHERE id > ?11 AND id < ?12
ORDER BY id {direction}
