-- Counts: parked events, by the name they are parked on.
SELECT parked_on AS on_what, count(*) AS count
FROM outbox_event WHERE parked_on IS NOT NULL GROUP BY parked_on ORDER BY parked_on
