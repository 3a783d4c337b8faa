-- Emit, for many Celery tasks, or one that is due later: as record.sql, ?1 a JSON array of rows, in their order.
INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key, next_attempt_at)
SELECT value ->> 'id', 'celery', value ->> 'aggregate_id', value ->> 'event_type', value -> 'payload', value -> 'headers',
       value ->> 'id', max(coalesce(value ->> 'due', ''), strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
FROM json_each(?1)
ORDER BY key
