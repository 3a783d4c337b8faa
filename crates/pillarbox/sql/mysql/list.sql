-- List: a page of events. The way is one of the files list_*.sql: a stretch of an index, in its order. At most ?10 entries of
-- it are read, whatever the filters. Rows that do not match are left out, except for the last one. The servers do not keep
-- the order of an inner statement, so the entries are put in order once more.
-- A filter that is null matches everything. ?1 state, ?2 event type (a LIKE pattern), ?3 aggregate type, ?4 aggregate id,
-- ?5 parked on, ?6 search (a LIKE pattern), ?7 since, ?8 until, ?9 limit, ?10 entries, ?11 to ?17 the stretch; ?18 destination,
-- and the routes as JSON arrays: ?19 event types, ?20 aggregate types (LIKE patterns), ?21 whether they lead there (0 or 1).
-- ?22 whether only events with failed attempts match.
SELECT event.*, CASE WHEN event.status = 'failed' THEN coalesce(
           (SELECT destination FROM outbox_delivery
            WHERE event_id = event.id AND status = 'failed' ORDER BY destination LIMIT 1),
           (SELECT destination FROM outbox_attempt WHERE event_id = event.id ORDER BY number DESC LIMIT 1)) END AS failed_on
FROM (
    SELECT entry.*, row_number() OVER ({order}) AS number, count(*) OVER () AS length,
           (?1 IS NULL OR state = ?1 OR status = ?1)
           AND (NOT ?22 OR attempts > 0)
           AND (?3 IS NULL OR aggregate_type = ?3)
           AND (?4 IS NULL OR aggregate_id = ?4)
           AND (?5 IS NULL OR coalesce(parked_on = ?5, false))
           AND (?7 IS NULL OR created_at >= ?7)
           AND (?8 IS NULL OR created_at < ?8)
           AND (?2 IS NULL OR event_type LIKE ?2)
           AND (?6 IS NULL OR lower(concat_ws('\n',
                    concat_ws('-', substr(hex(id), 1, 8), substr(hex(id), 9, 4), substr(hex(id), 13, 4), substr(hex(id), 17, 4),
                              substr(hex(id), 21)),
                    event_type, aggregate_type, aggregate_id, idempotency_key, error_message)) LIKE lower(?6))
           AND (?18 IS NULL OR coalesce(parked_on = ?18, false)
                OR coalesce((SELECT json_extract(?21, concat('$[', route.place - 1, ']')) = 1
                             FROM json_table(?19, '$[*]' COLUMNS (place FOR ORDINALITY,
                                                                  pattern VARCHAR(1100) CHARACTER SET utf8mb4 PATH '$')) AS route
                             WHERE event_type LIKE route.pattern
                               AND aggregate_type LIKE json_unquote(json_extract(?20, concat('$[', route.place - 1, ']')))
                             ORDER BY route.place LIMIT 1), false)
                OR EXISTS (SELECT 1 FROM outbox_delivery WHERE event_id = entry.id AND destination = ?18)
                OR EXISTS (SELECT 1 FROM outbox_attempt WHERE event_id = entry.id AND destination = ?18)) AS matches
    FROM (
        SELECT id, seq, aggregate_type, aggregate_id, event_type, status, idempotency_key, attempts, max_attempts, claims,
               next_attempt_at, parked_on, delivered_at, done_at, error_message, created_at, updated_at,
               CASE WHEN status <> 'pending' THEN status
                    WHEN parked_on IS NOT NULL THEN 'parked'
                    WHEN next_attempt_at <= utc_timestamp(6) THEN 'due'
                    WHEN claimed_by IS NOT NULL THEN 'sending'
                    ELSE 'scheduled' END AS state
        FROM outbox_event
        {way}
        LIMIT ?10
    ) AS entry
) AS event
WHERE matches OR number = length
ORDER BY number
LIMIT ?9
