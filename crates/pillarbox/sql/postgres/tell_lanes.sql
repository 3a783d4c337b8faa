-- Tell: writes a relay's view of its destinations. $1 the relay, $2 lanes as JSON.
INSERT INTO {schema}.outbox_lane
    (relay_id, destination, paused, down, limited, down_since, probe_at, recovered_at, queued, sending, last_error, last_error_at)
SELECT $1, destination, paused, down, limited, down_since, probe_at, recovered_at, queued, sending, last_error, last_error_at
FROM jsonb_to_recordset($2::jsonb)
     AS told (destination text, paused boolean, down boolean, limited boolean, down_since timestamptz, probe_at timestamptz,
              recovered_at timestamptz, queued bigint, sending bigint, last_error text, last_error_at timestamptz)
ON CONFLICT (relay_id, destination) DO UPDATE
SET paused = excluded.paused, down = excluded.down, limited = excluded.limited, down_since = excluded.down_since,
    probe_at = excluded.probe_at, recovered_at = excluded.recovered_at, queued = excluded.queued, sending = excluded.sending,
    last_error = excluded.last_error, last_error_at = excluded.last_error_at
