-- Emit, for one Celery task that is the first of its transaction: as record.sql. Relays look by themselves here.
INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key)
VALUES (?1, 'celery', ?2, ?3, ?4, ?5, ?1)
