-- Returns by what these events are routed, and whether a delivery or an attempt names the destination ?2. ?1 a JSON array of ids.
SELECT event.id, event.event_type, event.aggregate_type, event.payload, event.headers,
       coalesce(event.parked_on = ?2, false)
           OR EXISTS (SELECT 1 FROM outbox_delivery WHERE event_id = event.id AND destination = ?2)
           OR EXISTS (SELECT 1 FROM outbox_attempt WHERE event_id = event.id AND destination = ?2) AS named
FROM (SELECT DISTINCT id FROM json_table(?1, '$[*]' COLUMNS (id CHAR(32) CHARACTER SET utf8mb4 PATH '$')) AS given) AS asked
STRAIGHT_JOIN outbox_event AS event FORCE INDEX (outbox_event_id) ON event.id = unhex(asked.id)
