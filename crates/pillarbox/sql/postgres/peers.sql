-- Returns the other relays with a recent heartbeat, its time, and the seconds since it and since their start. $1 this relay,
-- $2 seconds.
SELECT id, heartbeat_at, extract(epoch FROM clock_timestamp())::float8 - extract(epoch FROM heartbeat_at)::float8,
       extract(epoch FROM clock_timestamp())::float8 - extract(epoch FROM started_at)::float8
FROM {schema}.outbox_relay
WHERE id <> $1 AND heartbeat_at > clock_timestamp() - $2 * interval '1 second'
