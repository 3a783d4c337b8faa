-- Settle: writes the deliveries of fan-outs that did not succeed at once. Delays count from the time at which the event was
-- settled, so that a delivery is due when its event is.
-- ?1 a JSON array of [event id, destination, status, attempts, seconds until due, error, parked].
INSERT INTO outbox_delivery (event_id, destination, status, attempts, next_attempt_at, delivered_at, error, parked)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3,
       CASE value ->> 2 WHEN 'pending'
           THEN strftime('%Y-%m-%dT%H:%M:%fZ', event.updated_at, printf('+%.3f seconds', value ->> 4)) END,
       CASE value ->> 2 WHEN 'delivered' THEN event.updated_at END, value ->> 5, value ->> 6
FROM json_each(?1) JOIN outbox_event AS event ON event.id = value ->> 0
WHERE true -- without it SQLite parses ON CONFLICT as the condition of a join
ON CONFLICT (event_id, destination) DO UPDATE
SET status = excluded.status, attempts = excluded.attempts, next_attempt_at = excluded.next_attempt_at,
    delivered_at = coalesce(delivered_at, excluded.delivered_at), error = excluded.error, parked = excluded.parked
