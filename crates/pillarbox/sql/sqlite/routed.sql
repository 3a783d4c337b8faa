-- Returns by what these events are routed, and whether a delivery or an attempt names the destination ?2. ?1 a JSON array of ids.
SELECT id, event_type, aggregate_type, payload, headers,
       coalesce(parked_on = ?2, false)
           OR EXISTS (SELECT 1 FROM outbox_delivery WHERE event_id = outbox_event.id AND destination = ?2)
           OR EXISTS (SELECT 1 FROM outbox_attempt WHERE event_id = outbox_event.id AND destination = ?2) AS named
FROM outbox_event
WHERE id IN (SELECT value FROM json_each(?1))
