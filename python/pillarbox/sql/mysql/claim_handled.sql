-- Claim for handlers in Python, first part: as claim_due.sql, but only events of types that have a handler, never recorded Celery
-- tasks, and also what a relay found no route for. ?1 limit, ?2 losses from which on an event is left out, ?3 a JSON array of LIKE
-- patterns of event types. The patterns are read by a subquery with one result, because the optimizer would join any other, and
-- sort: a sort locks every due event.
(SELECT id, seq, next_attempt_at, claims + (claimed_by IS NOT NULL) AS losses
 FROM outbox_event FORCE INDEX (outbox_event_due)
 WHERE parked_on IS NULL AND next_attempt_at <= utc_timestamp(6) AND claims + (claimed_by IS NOT NULL) < ?2
   AND aggregate_type <> 'celery'
   AND (SELECT max(event_type LIKE asked.pattern ESCAPE '|')
        FROM json_table(?3, '$[*]' COLUMNS (pattern VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$')) AS asked)
 ORDER BY next_attempt_at, seq LIMIT ?1 FOR UPDATE SKIP LOCKED)
UNION ALL
(SELECT id, seq, next_attempt_at, claims AS losses
 FROM outbox_event FORCE INDEX (outbox_event_due)
 WHERE parked_on = 'unrouted' AND next_attempt_at IS NOT NULL AND aggregate_type <> 'celery'
   AND (SELECT max(event_type LIKE asked.pattern ESCAPE '|')
        FROM json_table(?3, '$[*]' COLUMNS (pattern VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$')) AS asked)
 ORDER BY next_attempt_at, seq LIMIT ?1 FOR UPDATE SKIP LOCKED)
