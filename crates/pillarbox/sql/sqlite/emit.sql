-- Emit: one statement for one event or many, ?1 a JSON array of rows. Existing keys are left out of the result.
-- An event with a delivery time in the past is due now.
INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key, max_attempts,
                          next_attempt_at)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
       max(coalesce(value ->> 8, ''), strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
FROM json_each(?1)
WHERE true -- without it SQLite parses ON CONFLICT as the condition of a join
ORDER BY key
ON CONFLICT (event_type, idempotency_key) DO NOTHING
RETURNING id, seq, event_type, idempotency_key, status, created_at
