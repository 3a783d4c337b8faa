-- List: a page of events. The way is one of the files list_*.sql: a stretch of an index, in its order. At most ?10 entries of
-- it are read, whatever the filters, and none after the last wanted one: every level passes rows on one by one, and none sorts.
-- Rows that do not match are left out, except for the ?10th.
-- A filter that is null matches everything. ?1 state, ?2 event type (a GLOB pattern, because LIKE ignores case), ?3 aggregate
-- type, ?4 aggregate id, ?5 parked on, ?6 search (a LIKE pattern), ?7 since, ?8 until, ?9 limit, ?10 entries, ?11 to ?17 the
-- stretch; ?18 destination, and the routes as JSON arrays: ?19 event types, ?20 aggregate types (GLOB patterns), ?21 whether
-- they lead there. ?22 whether only events with failed attempts match.
SELECT *, CASE WHEN status = 'failed' THEN coalesce(
           (SELECT destination FROM outbox_delivery
            WHERE event_id = event.id AND status = 'failed' ORDER BY destination LIMIT 1),
           (SELECT destination FROM outbox_attempt WHERE event_id = event.id ORDER BY number DESC LIMIT 1)) END AS failed_on
FROM (
    SELECT *, row_number() OVER () AS number,
           (?1 IS NULL OR state = ?1 OR status = ?1)
           AND (NOT ?22 OR attempts > 0)
           AND (?3 IS NULL OR aggregate_type = ?3)
           AND (?4 IS NULL OR aggregate_id = ?4)
           AND (?5 IS NULL OR coalesce(parked_on = ?5, false))
           AND (?7 IS NULL OR created_at >= ?7)
           AND (?8 IS NULL OR created_at < ?8)
           AND (?2 IS NULL OR event_type GLOB ?2)
           AND (?6 IS NULL OR id LIKE ?6 ESCAPE '\' OR event_type LIKE ?6 ESCAPE '\' OR aggregate_type LIKE ?6 ESCAPE '\'
                OR aggregate_id LIKE ?6 ESCAPE '\' OR idempotency_key LIKE ?6 ESCAPE '\' OR error_message LIKE ?6 ESCAPE '\')
           AND (?18 IS NULL OR coalesce(parked_on = ?18, false)
                OR coalesce((SELECT json_extract(?21, '$[' || route.key || ']') FROM json_each(?19) AS route
                             WHERE event_type GLOB route.value
                               AND aggregate_type GLOB json_extract(?20, '$[' || route.key || ']')
                             ORDER BY route.key LIMIT 1), false)
                OR EXISTS (SELECT 1 FROM outbox_delivery WHERE event_id = entry.id AND destination = ?18)
                OR EXISTS (SELECT 1 FROM outbox_attempt WHERE event_id = entry.id AND destination = ?18)) AS matches
    FROM (
        SELECT id, seq, aggregate_type, aggregate_id, event_type, status, idempotency_key, attempts, max_attempts, claims,
               next_attempt_at, parked_on, delivered_at, error_message, created_at, updated_at,
               CASE WHEN status <> 'pending' THEN status
                    WHEN parked_on IS NOT NULL THEN 'parked'
                    WHEN next_attempt_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now') THEN 'due'
                    WHEN claimed_by IS NOT NULL THEN 'sending'
                    ELSE 'scheduled' END AS state
        FROM outbox_event
        {way}
        LIMIT ?10
    ) AS entry
) AS event
WHERE matches OR number = ?10
LIMIT ?9
