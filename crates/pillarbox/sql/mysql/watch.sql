-- Wake: changes when an event is emitted: the newest event, and the first of those that became due in the last seconds. The second
-- one is an event that was committed after a newer one. And whether this server is still the primary.
SELECT (SELECT max(seq) FROM outbox_event) AS newest,
       (SELECT seq FROM outbox_event FORCE INDEX (outbox_event_due)
        WHERE parked_on IS NULL
          AND next_attempt_at > utc_timestamp(6) - INTERVAL 5 SECOND AND next_attempt_at <= utc_timestamp(6)
        ORDER BY next_attempt_at, seq LIMIT 1) AS first,
       @@global.read_only AS read_only
