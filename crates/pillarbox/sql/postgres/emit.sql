-- Emit: one statement for many events; emit_one.sql is for one. seq follows the order in which they are given; they are inserted in the
-- order of their keys, so that two transactions that emit the same keys wait for each other instead of deadlocking. They
-- share one moment, so that they are claimed in the order of seq. Existing keys are left out of the answer. What is
-- to be delivered in the past is due now: nothing becomes due at a moment that claims have passed. Table names resolve
-- through the caller's search_path.
WITH given AS MATERIALIZED (
    SELECT event.*, nextval('outbox_event_seq_seq') AS seq, clock.now
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int[],
                $9::timestamptz[])
      AS event (id, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key, max_attempts, deliver_at),
         (SELECT clock_timestamp() AS now) AS clock
), written AS (
    INSERT INTO outbox_event (id, seq, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key,
                              max_attempts, next_attempt_at, created_at, updated_at)
    SELECT id, seq, aggregate_type, aggregate_id, event_type, payload::jsonb, headers::jsonb, idempotency_key,
           max_attempts, greatest(deliver_at, now), now, now
    FROM given
    ORDER BY event_type, idempotency_key
    ON CONFLICT (event_type, idempotency_key) DO NOTHING
    RETURNING id, seq, event_type, idempotency_key, status, created_at
), wake AS (
    -- NOTIFY makes commits queue for one lock: only while a relay has said that it is idle.
    SELECT pg_notify('outbox_wake', '') AS sent
    WHERE pg_sequence_last_value('outbox_idle_until') > date_part('epoch', clock_timestamp())
)
SELECT written.id, written.seq, written.event_type::text, written.idempotency_key::text, written.status::text,
       written.created_at, (SELECT count(*) FROM wake) AS woken
FROM written
ORDER BY written.seq
