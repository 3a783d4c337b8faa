-- Sweep: deletes relays without a heartbeat for an hour, and metrics older than a day.
WITH gone AS (
    DELETE FROM {schema}.outbox_relay WHERE heartbeat_at < clock_timestamp() - interval '1 hour' RETURNING id
), lanes AS (
    DELETE FROM {schema}.outbox_lane USING gone WHERE relay_id = gone.id
)
DELETE FROM {schema}.outbox_figure WHERE minute < clock_timestamp() - interval '25 hours'
