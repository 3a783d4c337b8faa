-- Replay: emits delivered and failed events again, as new events that are due now. Each key gets the first free number, so that
-- it is no duplicate. If another event took the number first, the result has no row for the event. ?1 ids, ?2 ids of the new
-- events, ?3 keys without a number (JSON arrays), ?4 the separator, ?5 the header of the old id, ?6 the header of
-- the only destination, ?7 that destination; null for all, which removes the header.
INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key, max_attempts)
SELECT json_extract(?2, '$[' || asked.key || ']'), event.aggregate_type, event.aggregate_id, event.event_type,
       event.payload, json_patch(coalesce(event.headers, '{}'), json_object(?5, event.id, ?6, ?7)),
       json_extract(?3, '$[' || asked.key || ']') || ?4 || (
           WITH RECURSIVE taken (number) AS (
               SELECT 1
               UNION ALL
               SELECT number + 1 FROM taken
               WHERE EXISTS (SELECT 1 FROM outbox_event AS other
                             WHERE other.event_type = event.event_type
                               AND other.idempotency_key = json_extract(?3, '$[' || asked.key || ']') || ?4 || number)
           )
           SELECT max(number) FROM taken),
       event.max_attempts
FROM json_each(?1) AS asked CROSS JOIN outbox_event AS event
WHERE event.id = asked.value AND event.status <> 'pending'
ORDER BY event.seq
ON CONFLICT (event_type, idempotency_key) DO NOTHING
RETURNING id
