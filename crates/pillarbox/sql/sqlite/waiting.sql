-- Waiting: the events that wait for ?1, a destination or a route: parked as a whole, or with one parked delivery. Each kind is
-- counted up to ?2. The age is of the oldest of the hundred of each kind that come first.
SELECT (SELECT count(*) FROM (SELECT 1 FROM outbox_event WHERE parked_on = ?1 LIMIT ?2))
     + (SELECT count(*) FROM (SELECT 1 FROM outbox_delivery AS delivery
                              JOIN outbox_event AS event ON event.id = delivery.event_id
                              WHERE delivery.parked AND delivery.destination = ?1 AND event.parked_on IS NOT ?1
                              LIMIT ?2)) AS count,
       (SELECT (julianday('now') - julianday(min(created_at))) * 86400.0
        FROM (SELECT created_at
              FROM (SELECT created_at FROM outbox_event WHERE parked_on = ?1 ORDER BY next_attempt_at, seq LIMIT 100)
              UNION ALL
              SELECT created_at
              FROM (SELECT event.created_at FROM outbox_delivery AS delivery
                    JOIN outbox_event AS event ON event.id = delivery.event_id
                    WHERE delivery.parked AND delivery.destination = ?1 ORDER BY delivery.event_id LIMIT 100))) AS oldest
