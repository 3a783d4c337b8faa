-- Emit: one event. An existing key is an error of this statement only: InnoDB does not roll back the transaction.
-- An event with a delivery time in the past is due now.
INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key, max_attempts,
                          next_attempt_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, coalesce(greatest(?, utc_timestamp(6)), utc_timestamp(6)))
