-- Farewell: removes the lanes of a stopped relay.
DELETE FROM outbox_lane WHERE relay_id = ?1
