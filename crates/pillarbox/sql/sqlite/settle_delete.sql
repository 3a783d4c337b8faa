-- Settle with on_delivered = "delete": deletes delivered events. ?1 a JSON array of [id, token].
DELETE FROM outbox_event
WHERE status = 'pending'
  AND (id, claimed_by) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
RETURNING id
