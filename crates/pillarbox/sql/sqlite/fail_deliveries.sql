-- Fail and sweep: fails the open deliveries of failed events. ?1 a JSON array of ids, ?2 the reason.
UPDATE outbox_delivery SET status = 'failed', error = ?2, next_attempt_at = NULL, parked = 0
WHERE event_id IN (SELECT value FROM json_each(?1)) AND status = 'pending'
