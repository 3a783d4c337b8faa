-- Tell: writes a relay's view of its destinations. $1 the relay, $2 lanes as JSON.
INSERT INTO {schema}.outbox_lane
    (relay_id, destination, paused, down, congested, queued, sending, last_error, last_error_at)
SELECT $1, destination, paused, down, congested, queued, sending, last_error, last_error_at
FROM jsonb_to_recordset($2::jsonb)
     AS told (destination text, paused boolean, down boolean, congested boolean, queued bigint, sending bigint,
              last_error text, last_error_at timestamptz)
ON CONFLICT (relay_id, destination) DO UPDATE
SET paused = excluded.paused, down = excluded.down, congested = excluded.congested, queued = excluded.queued,
    sending = excluded.sending, last_error = excluded.last_error, last_error_at = excluded.last_error_at
