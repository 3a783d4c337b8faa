-- What claim_handled.sql would find now, each half by the index. ?1 a JSON array of LIKE patterns of event types.
SELECT (SELECT count(*) FROM outbox_event FORCE INDEX (outbox_event_due)
        WHERE parked_on IS NULL AND next_attempt_at <= utc_timestamp(6) AND aggregate_type <> 'celery'
          AND (SELECT max(event_type LIKE asked.pattern ESCAPE '|')
               FROM json_table(?1, '$[*]' COLUMNS (pattern VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$')) AS asked))
     + (SELECT count(*) FROM outbox_event FORCE INDEX (outbox_event_due)
        WHERE parked_on = 'unrouted' AND next_attempt_at IS NOT NULL AND aggregate_type <> 'celery'
          AND (SELECT max(event_type LIKE asked.pattern ESCAPE '|')
               FROM json_table(?1, '$[*]' COLUMNS (pattern VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$')) AS asked))
