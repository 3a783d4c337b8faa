-- Pause: stops sending to $1, for the person $2. A destination that is already paused is unchanged.
INSERT INTO {schema}.outbox_paused (destination, paused_by) VALUES ($1, $2) ON CONFLICT (destination) DO NOTHING
