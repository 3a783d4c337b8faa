-- What claim_handled.sql would find now. $1 LIKE patterns of event types.
SELECT count(*) FROM {schema}.outbox_event
WHERE status = 'pending' AND (parked_on = 'unrouted'
                              OR (parked_on IS NULL AND next_attempt_at <= (SELECT clock_timestamp())))
  AND aggregate_type <> 'celery' AND event_type LIKE ANY ($1)
