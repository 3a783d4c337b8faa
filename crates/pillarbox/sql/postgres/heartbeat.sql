-- Heartbeat: records that this relay is alive. $1 id, $2 host, $3 in flight, $4 idle, $5 configuration.
-- Emit notifies until 15 seconds after the last heartbeat of an idle relay. That time is kept in a sequence, because emit reads
-- it in one step and without walking over the dead rows of heartbeats. Two concurrent heartbeats may each miss the other; then
-- polling finds new events until the next heartbeat.
WITH beat AS (
    INSERT INTO {schema}.outbox_relay AS relay (id, host, in_flight, idle, configuration) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (id) DO UPDATE
    SET heartbeat_at = clock_timestamp(), in_flight = excluded.in_flight, idle = excluded.idle
    RETURNING heartbeat_at, idle
), heard AS (
    SELECT heartbeat_at FROM beat WHERE idle
    UNION ALL
    SELECT heartbeat_at FROM {schema}.outbox_relay WHERE idle AND id <> $1
)
SELECT setval('{schema}.outbox_idle_until', coalesce(ceil(extract(epoch FROM max(heartbeat_at)))::bigint + 15, 0))
FROM heard
