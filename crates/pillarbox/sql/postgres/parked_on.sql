-- Returns the distinct names that events and deliveries are parked on. It skips from name to name through the indexes, so the
-- number of parked rows does not matter.
WITH RECURSIVE parked AS (
    (SELECT parked_on FROM {schema}.outbox_event WHERE parked_on IS NOT NULL ORDER BY parked_on LIMIT 1)
    UNION ALL
    SELECT (SELECT event.parked_on FROM {schema}.outbox_event AS event
            WHERE event.parked_on > parked.parked_on ORDER BY event.parked_on LIMIT 1)
    FROM parked WHERE parked.parked_on IS NOT NULL
), shared AS (
    (SELECT destination FROM {schema}.outbox_delivery WHERE parked ORDER BY destination LIMIT 1)
    UNION ALL
    SELECT (SELECT delivery.destination FROM {schema}.outbox_delivery AS delivery
            WHERE delivery.parked AND delivery.destination > shared.destination ORDER BY delivery.destination LIMIT 1)
    FROM shared WHERE shared.destination IS NOT NULL
)
SELECT parked_on::text FROM parked WHERE parked_on IS NOT NULL
UNION
SELECT destination::text FROM shared WHERE destination IS NOT NULL
ORDER BY 1
