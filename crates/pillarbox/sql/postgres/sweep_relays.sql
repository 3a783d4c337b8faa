-- Sweep: relays that have not said for a day that they live are forgotten.
DELETE FROM {schema}.outbox_relay WHERE heartbeat_at < clock_timestamp() - interval '1 day'
