-- Waiting: the events that wait for $1, a destination or a route: parked as a whole, or with one parked delivery. Each kind is
-- counted up to $2. The age is of the oldest of the hundred of each kind that come first.
SELECT (SELECT count(*) FROM (SELECT FROM {schema}.outbox_event WHERE parked_on = $1
                              ORDER BY next_attempt_at, seq LIMIT $2) AS whole)
     + (SELECT count(*) FROM (SELECT FROM {schema}.outbox_delivery AS delivery
                              JOIN {schema}.outbox_event AS event ON event.id = delivery.event_id
                              WHERE delivery.destination = $1 AND delivery.parked AND event.parked_on IS DISTINCT FROM $1
                              LIMIT $2) AS shared) AS count,
       (SELECT extract(epoch FROM clock_timestamp())::float8 - extract(epoch FROM min(created_at))::float8
        FROM ((SELECT created_at FROM {schema}.outbox_event WHERE parked_on = $1 ORDER BY next_attempt_at, seq LIMIT 100)
              UNION ALL
              (SELECT event.created_at FROM {schema}.outbox_delivery AS delivery
               JOIN {schema}.outbox_event AS event ON event.id = delivery.event_id
               WHERE delivery.destination = $1 AND delivery.parked ORDER BY delivery.event_id LIMIT 100)) AS first) AS oldest
