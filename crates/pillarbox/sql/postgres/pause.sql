-- Pause: nothing is sent to $1 from now on; $2 asked for it. A destination that is paused already stays as it is.
INSERT INTO {schema}.outbox_paused (destination, paused_by) VALUES ($1, $2) ON CONFLICT (destination) DO NOTHING
