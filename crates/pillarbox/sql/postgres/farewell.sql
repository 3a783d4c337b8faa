-- Farewell: removes a stopped relay, so that emit need not notify it.
WITH gone AS (
    DELETE FROM {schema}.outbox_relay WHERE id = $1
), lanes AS (
    DELETE FROM {schema}.outbox_lane WHERE relay_id = $1
)
SELECT setval('{schema}.outbox_idle_until', coalesce(ceil(extract(epoch FROM max(heartbeat_at)))::bigint + 15, 0))
FROM {schema}.outbox_relay WHERE idle AND id <> $1
