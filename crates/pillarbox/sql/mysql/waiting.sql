-- Waiting: the events that wait for ?1, a destination or a route: parked as a whole, or with one parked delivery. Each kind is
-- counted up to ?2. The age is of the oldest of the hundred of each kind that come first.
SELECT (SELECT count(*) FROM (SELECT 1 FROM outbox_event FORCE INDEX (outbox_event_due)
                              WHERE parked_on = ?1 LIMIT ?2) AS whole)
     + (SELECT count(*) FROM (SELECT 1 FROM outbox_delivery AS delivery FORCE INDEX (outbox_delivery_parked)
                              STRAIGHT_JOIN outbox_event AS event ON event.id = delivery.event_id
                              WHERE delivery.parked = 1 AND delivery.destination = ?1 AND NOT (event.parked_on <=> ?1)
                              LIMIT ?2) AS shared) AS count,
       (SELECT timestampdiff(MICROSECOND, min(created_at), utc_timestamp(6)) / 1e6
        FROM ((SELECT created_at FROM outbox_event FORCE INDEX (outbox_event_due)
               WHERE parked_on = ?1 ORDER BY next_attempt_at, seq LIMIT 100)
              UNION ALL
              (SELECT event.created_at FROM outbox_delivery AS delivery FORCE INDEX (outbox_delivery_parked)
               STRAIGHT_JOIN outbox_event AS event ON event.id = delivery.event_id
               WHERE delivery.parked = 1 AND delivery.destination = ?1 ORDER BY delivery.event_id LIMIT 100)) AS first) AS oldest
