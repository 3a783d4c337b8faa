-- List: the number of entries of a stretch that was read to its end, at most ?10.
SELECT count(*) AS length FROM (SELECT 1 FROM outbox_event {way} LIMIT ?10)
