-- Emit, for one event whose key is unique: as emit_one.sql, without the search for a duplicate. While a relay reads the write-ahead
-- log, the event is written there instead, and the result has no row.
INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key, max_attempts,
                          next_attempt_at, created_at, updated_at)
SELECT $1::uuid, $2::text, $3::text, $4::text, $5::text::jsonb, $6::text::jsonb, $7::text, $8::int,
       greatest($9::timestamptz, now), now, now
FROM (VALUES (clock_timestamp())) AS clock (now)
WHERE CASE WHEN pg_sequence_last_value('outbox_log_until') > date_part('epoch', now)
           THEN NOT outbox_log_write($1::uuid, $2::text, $3::text, $4::text, $5::text, $6::text, $8::int, $9::timestamptz, now)
           ELSE true END
RETURNING seq, created_at,
          CASE WHEN pg_sequence_last_value('outbox_idle_until') > date_part('epoch', clock_timestamp())
               THEN pg_notify('outbox_wake', '') END IS NOT NULL AS woken
