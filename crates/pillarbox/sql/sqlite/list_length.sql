-- List: how many entries a stretch has that has come to its end, ?10 at most.
SELECT count(*) AS length FROM (SELECT 1 FROM outbox_event {way} LIMIT ?10)
