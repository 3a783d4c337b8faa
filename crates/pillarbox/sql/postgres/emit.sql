-- Emit: one statement for many events; emit_one.sql is for one event, emit_own.sql for events with unique keys. seq follows the
-- order in which the events are given. They are inserted in the order of their keys, so that two transactions that emit the
-- same keys wait for each other instead of deadlocking. They share one time, so that they are claimed in the order of seq.
-- Existing keys are left out of the result, which has no order. An event with a delivery time in the past is due now, so that
-- no event becomes due at a time that claims have passed. While a relay reads the write-ahead log, events whose keys are their own
-- ids are written there instead, and left out of the result, too. Table names resolve through the caller's search_path.
INSERT INTO outbox_event (id, seq, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key, max_attempts,
                          next_attempt_at, created_at, updated_at)
SELECT id, seq, aggregate_type, aggregate_id, event_type, payload::jsonb, headers::jsonb, idempotency_key, max_attempts,
       greatest(deliver_at, now), now, now
FROM (
    SELECT event.*, nextval('outbox_event_seq_seq') AS seq, now
    FROM (
        SELECT clock_timestamp() AS now,
               -- Asked once for all events.
               (SELECT outbox_log_open()
                WHERE pg_sequence_last_value('outbox_log_until') > date_part('epoch', clock_timestamp())) AS log
    ) AS gate,
    unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int[], $9::timestamptz[])
      AS event (id, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key, max_attempts, deliver_at)
    WHERE CASE WHEN (log).secret IS NOT NULL AND idempotency_key = id::text AND aggregate_type <> 'celery' AND (deliver_at > now) IS NOT TRUE
                    AND octet_length(payload) + coalesce(octet_length(headers), 0) <= (log).size_limit
               THEN pg_logical_emit_message(true, 'pillarbox:' || (log).secret, outbox_log_content(
                   id, aggregate_type, aggregate_id, event_type, payload, headers, max_attempts, now)) IS NULL
               ELSE true END
) AS given
ORDER BY event_type, idempotency_key
ON CONFLICT (event_type, idempotency_key) DO NOTHING
RETURNING id, seq, event_type::text, idempotency_key::text, status::text, created_at,
          -- Evaluated once for all rows. NOTIFY makes commits queue for one lock, so it is sent only while a relay is idle.
          (SELECT pg_notify('outbox_wake', '')
           WHERE pg_sequence_last_value('outbox_idle_until') > date_part('epoch', clock_timestamp())) IS NOT NULL AS woken
