-- Replay: one event that was delivered or given up once more, as a new event that is due now. It has the first number behind
-- its key that is free, so that no look for duplicates swallows it.
-- ?1 its id, ?2 the id of the new one, ?3 its key without a number, ?4 what stands between, ?5 the header.
INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key, max_attempts)
SELECT ?2, aggregate_type, aggregate_id, event_type, payload,
       json_patch(coalesce(headers, '{}'), json_object(?5, id)),
       (WITH RECURSIVE taken (number) AS (
            SELECT 1
            UNION ALL
            SELECT number + 1 FROM taken
            WHERE EXISTS (SELECT 1 FROM outbox_event AS other
                          WHERE other.event_type = (SELECT event_type FROM outbox_event WHERE id = ?1)
                            AND other.idempotency_key = ?3 || ?4 || number)
        )
        SELECT ?3 || ?4 || max(number) FROM taken),
       max_attempts
FROM outbox_event WHERE id = ?1 AND status <> 'pending'
