-- Tell: writes a relay's view of its destinations. ?1 the relay, ?2 lanes as JSON.
INSERT INTO outbox_lane (relay_id, destination, paused, down, congested, queued, sending, last_error, last_error_at)
SELECT ?1, value ->> 'destination', value ->> 'paused', value ->> 'down', value ->> 'congested', value ->> 'queued',
       value ->> 'sending', value ->> 'last_error', value ->> 'last_error_at'
FROM json_each(?2)
WHERE true
ON CONFLICT (relay_id, destination) DO UPDATE
SET paused = excluded.paused, down = excluded.down, congested = excluded.congested, queued = excluded.queued,
    sending = excluded.sending, last_error = excluded.last_error, last_error_at = excluded.last_error_at
