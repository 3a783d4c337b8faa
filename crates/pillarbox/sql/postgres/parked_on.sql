-- What events are parked on, each once: a walk from name to name through the index, however many events there are.
WITH RECURSIVE parked AS (
    (SELECT parked_on FROM {schema}.outbox_event WHERE parked_on IS NOT NULL ORDER BY parked_on LIMIT 1)
    UNION ALL
    SELECT (SELECT event.parked_on FROM {schema}.outbox_event AS event
            WHERE event.parked_on > parked.parked_on ORDER BY event.parked_on LIMIT 1)
    FROM parked WHERE parked.parked_on IS NOT NULL
)
SELECT parked_on::text FROM parked WHERE parked_on IS NOT NULL
