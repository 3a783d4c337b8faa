-- Replay: emits delivered and failed events again, as new events that are due now. Each key gets the first free number, so that
-- it is no duplicate. If another transaction took the number first, the result has no row for the event. $1 ids, $2 ids of the
-- new events, $3 keys without a number, $4 the separator, $5 the header of the old id, $6 the header of the
-- only destination, $7 that destination; null for all.
INSERT INTO {schema}.outbox_event AS made
    (id, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key, max_attempts, next_attempt_at,
     created_at, updated_at)
SELECT asked.new_id, event.aggregate_type, event.aggregate_id, event.event_type, event.payload,
       (coalesce(event.headers, '{}') - $6::text) || jsonb_build_object($5::text, event.id)
           || CASE WHEN $7::text IS NULL THEN '{}' ELSE jsonb_build_object($6, $7) END,
       asked.key || $4::text || (
           WITH RECURSIVE taken (number) AS (
               SELECT 1
               UNION ALL
               SELECT number + 1 FROM taken
               WHERE (SELECT true FROM {schema}.outbox_event AS other
                      WHERE other.event_type = event.event_type AND other.idempotency_key = asked.key || $4 || number)
           )
           SELECT max(number) FROM taken),
       event.max_attempts, clock.now, clock.now, clock.now
FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS asked (id, new_id, key)
     JOIN {schema}.outbox_event AS event ON event.id = asked.id,
     (SELECT clock_timestamp() AS now) AS clock
WHERE event.status <> 'pending'
ORDER BY event.seq
ON CONFLICT (event_type, idempotency_key) DO NOTHING
RETURNING made.id
