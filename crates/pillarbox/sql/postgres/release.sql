-- Release: gives dropped claims back at once, each only if its lease still holds the event. $1 ids, $2 tokens.
UPDATE {schema}.outbox_event AS event
SET claimed_by = NULL, next_attempt_at = clock.now, updated_at = clock.now
FROM (SELECT clock_timestamp() AS now) AS clock, unnest($1::uuid[], $2::uuid[]) AS dropped (id, token)
WHERE event.id = dropped.id AND event.claimed_by = dropped.token AND event.status = 'pending'
