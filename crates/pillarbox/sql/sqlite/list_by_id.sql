-- List, all, by id, which follows time as far as the writers' clocks do. ?11, ?12 between these ids.
WHERE id > ?11 AND id < ?12
ORDER BY id {direction}
