-- Depth: waiting and failed events, at a bounded cost. Each is counted up to $1, in the order of its index. The *_once columns
-- hold the size of the index when it was last vacuumed or analysed.
SELECT (SELECT count(*) FROM (SELECT FROM {schema}.outbox_event
                              WHERE status = 'pending' AND parked_on IS NULL
                                AND next_attempt_at <= (SELECT clock_timestamp())
                              ORDER BY next_attempt_at, seq LIMIT $1) AS due) AS due,
       later.scheduled, later.sending,
       (SELECT count(*) FROM (SELECT FROM {schema}.outbox_event WHERE parked_on IS NOT NULL
                              ORDER BY parked_on, next_attempt_at, seq LIMIT $1) AS parked) AS parked,
       (SELECT count(*) FROM (SELECT FROM {schema}.outbox_event WHERE status = 'failed'
                              ORDER BY updated_at LIMIT $1) AS failed) AS failed,
       (SELECT extract(epoch FROM clock_timestamp())::float8 - extract(epoch FROM next_attempt_at)::float8 FROM {schema}.outbox_event
        WHERE status = 'pending' AND parked_on IS NULL AND next_attempt_at <= (SELECT clock_timestamp())
        ORDER BY next_attempt_at, seq LIMIT 1) AS oldest_due,
       coalesce((SELECT reltuples::float8 FROM pg_class WHERE oid = to_regclass('{schema}.outbox_event_due')), 0) AS due_once,
       coalesce((SELECT reltuples::float8 FROM pg_class WHERE oid = to_regclass('{schema}.outbox_event_parked')), 0) AS parked_once,
       coalesce((SELECT reltuples::float8 FROM pg_class WHERE oid = to_regclass('{schema}.outbox_event_failed')), 0) AS failed_once
FROM (SELECT count(*) FILTER (WHERE claimed_by IS NULL) AS scheduled, count(claimed_by) AS sending
      FROM (SELECT claimed_by FROM {schema}.outbox_event
            WHERE status = 'pending' AND parked_on IS NULL AND next_attempt_at > (SELECT clock_timestamp())
            ORDER BY next_attempt_at, seq LIMIT $1) AS later) AS later
