-- Farewell: this relay is gone.
DELETE FROM {schema}.outbox_relay WHERE id = $1
