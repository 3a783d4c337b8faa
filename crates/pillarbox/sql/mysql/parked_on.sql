-- Returns the distinct names that events and deliveries are parked on. The server skips from name to name through an index.
SELECT DISTINCT parked_on FROM outbox_event WHERE parked_on IS NOT NULL
UNION
SELECT DISTINCT destination FROM outbox_delivery WHERE parked = 1
