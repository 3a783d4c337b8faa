-- Emit, for one event: as emit.sql, without the parts for many events. For an existing key, the result has no row.
INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key, max_attempts,
                          next_attempt_at, created_at, updated_at)
SELECT $1::uuid, $2::text, $3::text, $4::text, $5::text::jsonb, $6::text::jsonb, $7::text, $8::int,
       greatest($9::timestamptz, now), now, now
FROM (VALUES (clock_timestamp())) AS clock (now)
ON CONFLICT (event_type, idempotency_key) DO NOTHING
RETURNING seq, created_at,
          -- NOTIFY makes commits queue for one lock, so it is sent only while a relay is idle.
          CASE WHEN pg_sequence_last_value('outbox_idle_until') > date_part('epoch', clock_timestamp())
               THEN pg_notify('outbox_wake', '') END IS NOT NULL AS woken
