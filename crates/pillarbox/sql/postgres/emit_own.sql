-- Emit, for many events whose keys are unique, because they are the events' own ids: as emit.sql, without an order of keys and
-- without the search for duplicates, which costs a second WAL record and another descent into the index for each event.
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
    WHERE CASE WHEN (log).secret IS NOT NULL AND aggregate_type <> 'celery' AND (deliver_at > now) IS NOT TRUE
                    AND octet_length(payload) + coalesce(octet_length(headers), 0) <= (log).size_limit
               THEN pg_logical_emit_message(true, 'pillarbox:' || (log).secret, outbox_log_content(
                   id, aggregate_type, aggregate_id, event_type, payload, headers, max_attempts, now)) IS NULL
               ELSE true END
) AS given
RETURNING id, seq, event_type::text, idempotency_key::text, status::text, created_at,
          (SELECT pg_notify('outbox_wake', '')
           WHERE pg_sequence_last_value('outbox_idle_until') > date_part('epoch', clock_timestamp())) IS NOT NULL AS woken
