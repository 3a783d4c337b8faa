-- What claim_handled.sql would find now. ?1 a JSON array of LIKE patterns of event types.
SELECT count(*) FROM outbox_event FORCE INDEX (outbox_event_due)
WHERE (parked_on IS NULL AND next_attempt_at <= utc_timestamp(6) OR parked_on = 'unrouted' AND next_attempt_at IS NOT NULL)
  AND aggregate_type <> 'celery'
  AND (SELECT max(event_type LIKE asked.pattern ESCAPE '|')
       FROM json_table(?1, '$[*]' COLUMNS (pattern VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$')) AS asked)
