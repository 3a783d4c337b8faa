-- Counts: waiting events, from the partial indexes, and terminal events.
SELECT count(*) FILTER (WHERE next_attempt_at <= clock_timestamp()) AS due,
       count(*) FILTER (WHERE next_attempt_at > clock_timestamp() AND claimed_by IS NULL) AS scheduled,
       count(*) FILTER (WHERE next_attempt_at > clock_timestamp() AND claimed_by IS NOT NULL) AS sending,
       (SELECT count(*) FROM {schema}.outbox_event WHERE status = 'delivered') AS delivered,
       (SELECT count(*) FROM {schema}.outbox_event WHERE status = 'failed') AS failed,
       extract(epoch FROM clock_timestamp())::float8
           - extract(epoch FROM min(next_attempt_at) FILTER (WHERE next_attempt_at <= clock_timestamp()))::float8 AS oldest_due
FROM {schema}.outbox_event
WHERE status = 'pending' AND parked_on IS NULL
