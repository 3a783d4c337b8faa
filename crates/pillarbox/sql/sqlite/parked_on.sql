-- What events and deliveries are parked on, each once. SQLite walks an index from name to name by itself.
SELECT DISTINCT parked_on FROM outbox_event WHERE parked_on IS NOT NULL
UNION
SELECT DISTINCT destination FROM outbox_delivery WHERE parked
