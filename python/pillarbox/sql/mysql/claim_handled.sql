-- Claim for handlers in Python, first part: as claim_due.sql, but only events of types that have a handler, never recorded Celery
-- tasks, and also what a relay found no route for. Without locks, because the server would keep those of the events of other types
-- that it reads. ?1 limit, ?2 losses from which on an event is left out, ?3 a JSON array of LIKE patterns of event types.
(SELECT seq, next_attempt_at
 FROM outbox_event FORCE INDEX (outbox_event_due)
 WHERE parked_on IS NULL AND next_attempt_at <= utc_timestamp(6) AND claims + (claimed_by IS NOT NULL) < ?2
   AND aggregate_type <> 'celery'
   AND (SELECT max(event_type LIKE asked.pattern ESCAPE '|')
        FROM json_table(?3, '$[*]' COLUMNS (pattern VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$')) AS asked)
 ORDER BY next_attempt_at, seq LIMIT ?1)
UNION ALL
(SELECT seq, next_attempt_at
 FROM outbox_event FORCE INDEX (outbox_event_due)
 WHERE parked_on = 'unrouted' AND next_attempt_at IS NOT NULL AND aggregate_type <> 'celery'
   AND (SELECT max(event_type LIKE asked.pattern ESCAPE '|')
        FROM json_table(?3, '$[*]' COLUMNS (pattern VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$')) AS asked)
 ORDER BY next_attempt_at, seq LIMIT ?1)
ORDER BY next_attempt_at, seq
