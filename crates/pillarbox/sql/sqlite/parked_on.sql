-- What events are parked on, each once. SQLite walks the index from name to name by itself.
SELECT DISTINCT parked_on FROM outbox_event WHERE parked_on IS NOT NULL
