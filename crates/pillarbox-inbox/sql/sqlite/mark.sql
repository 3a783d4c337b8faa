-- Returns the time of a row that was recorded a moment ago: `committed` and `forget` know the row by it.
SELECT received_at FROM inbox_event WHERE consumer = ?1 AND id = ?2
