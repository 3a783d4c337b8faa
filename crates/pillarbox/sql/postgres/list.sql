-- List: a page of events. The way is one of the files list_*.sql: a stretch of an index, in its order. At most $10 entries of
-- it are read, whatever the filters, and none after the last wanted one: every level passes rows on one by one, and none sorts.
-- Rows that do not match are left out, except for the last one.
-- A filter that is null matches everything. $1 state, $2 event type (a LIKE pattern), $3 aggregate type, $4 aggregate id,
-- $5 parked on, $6 search (a LIKE pattern), $7 since, $8 until, $9 limit, $10 entries, $11 to $17 the stretch; $18 destination,
-- and the routes: $19 event types, $20 aggregate types (LIKE patterns), $21 whether they lead there.
-- $22 whether only events with failed attempts match.
SELECT *, CASE WHEN status = 'failed' THEN coalesce(
           (SELECT destination::text FROM {schema}.outbox_delivery
            WHERE event_id = event.id AND status = 'failed' ORDER BY destination LIMIT 1),
           (SELECT destination::text FROM {schema}.outbox_attempt
            WHERE event_id = event.id ORDER BY number DESC LIMIT 1)) END AS failed_on
FROM (
    SELECT *, row_number() OVER () AS number, lead(true) OVER () IS NULL AS is_last,
           ($1::text IS NULL OR state = $1 OR status = $1)
           AND (NOT $22::boolean OR attempts > 0)
           AND ($3::text IS NULL OR aggregate_type = $3)
           AND ($4::text IS NULL OR aggregate_id = $4)
           AND ($5::text IS NULL OR parked_on = $5)
           AND ($7::timestamptz IS NULL OR created_at >= $7)
           AND ($8::timestamptz IS NULL OR created_at < $8)
           AND ($2::text IS NULL OR event_type LIKE $2)
           -- One comparison of all columns together takes half as long as one of each.
           AND ($6::text IS NULL OR id::text || E'\n' || event_type || E'\n' || aggregate_type || E'\n' || aggregate_id || E'\n'
                || idempotency_key || E'\n' || error_message ILIKE $6)
           -- Not EXISTS: the planner may turn it into a hash table of all attempts.
           AND ($18::text IS NULL OR coalesce(parked_on = $18, false)
                OR coalesce((SELECT leads FROM unnest($19::text[], $20::text[], $21::boolean[]) WITH ORDINALITY
                                 AS route (events, aggregates, leads, place)
                             WHERE event_type LIKE events AND aggregate_type LIKE aggregates ORDER BY place LIMIT 1), false)
                OR coalesce((SELECT true FROM {schema}.outbox_delivery
                             WHERE event_id = entry.id AND destination = $18 LIMIT 1), false)
                OR coalesce((SELECT true FROM {schema}.outbox_attempt
                             WHERE event_id = entry.id AND destination = $18 LIMIT 1), false)) AS matches
    FROM (
        SELECT id, seq, aggregate_type::text, aggregate_id::text, event_type::text, status::text, idempotency_key::text,
               attempts, max_attempts, claims::int, next_attempt_at, parked_on::text, delivered_at, error_message,
               created_at, updated_at,
               CASE WHEN status <> 'pending' THEN status
                    WHEN parked_on IS NOT NULL THEN 'parked'
                    WHEN next_attempt_at <= clock_timestamp() THEN 'due'
                    WHEN claimed_by IS NOT NULL THEN 'sending'
                    ELSE 'scheduled' END AS state
        FROM {schema}.outbox_event
        {way}
        LIMIT $10
    ) AS entry
) AS event
WHERE matches OR is_last
LIMIT $9
