-- What claim_handled.sql would find now. ?1 a JSON array of GLOB patterns of event types.
SELECT (SELECT count(*) FROM outbox_event
        WHERE status = 'pending' AND parked_on IS NULL AND next_attempt_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
          AND aggregate_type <> 'celery' AND EXISTS (SELECT 1 FROM json_each(?1) WHERE event_type GLOB value))
     + (SELECT count(*) FROM outbox_event
        WHERE parked_on = 'unrouted' AND status = 'pending'
          AND aggregate_type <> 'celery' AND EXISTS (SELECT 1 FROM json_each(?1) WHERE event_type GLOB value))
