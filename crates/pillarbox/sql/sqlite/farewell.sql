-- Farewell: this relay is gone.
DELETE FROM outbox_relay WHERE id = ?1
