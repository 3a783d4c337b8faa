-- Returns by what these events are routed, and whether a delivery or an attempt names the destination $2. $1 ids.
SELECT id, event_type::text, aggregate_type::text, payload::text, headers::text,
       coalesce(parked_on = $2, false)
           OR EXISTS (SELECT 1 FROM {schema}.outbox_delivery WHERE event_id = id AND destination = $2)
           OR EXISTS (SELECT 1 FROM {schema}.outbox_attempt WHERE event_id = id AND destination = $2) AS named
FROM {schema}.outbox_event
WHERE id = ANY ($1)
