-- Farewell: removes a stopped relay.
DELETE FROM outbox_relay WHERE id = ?1
