-- Tell: writes a relay's view of its destinations. ?1 the relay, ?2 lanes as JSON.
INSERT INTO outbox_lane
    (relay_id, destination, paused, down, limited, down_since, probe_at, recovered_at, queued, sending, last_error, last_error_at)
SELECT ?1, value ->> 'destination', value ->> 'paused', value ->> 'down', value ->> 'limited', value ->> 'down_since',
       value ->> 'probe_at', value ->> 'recovered_at', value ->> 'queued', value ->> 'sending', value ->> 'last_error',
       value ->> 'last_error_at'
FROM json_each(?2)
WHERE true
ON CONFLICT (relay_id, destination) DO UPDATE
SET paused = excluded.paused, down = excluded.down, limited = excluded.limited, down_since = excluded.down_since,
    probe_at = excluded.probe_at, recovered_at = excluded.recovered_at, queued = excluded.queued, sending = excluded.sending,
    last_error = excluded.last_error, last_error_at = excluded.last_error_at
