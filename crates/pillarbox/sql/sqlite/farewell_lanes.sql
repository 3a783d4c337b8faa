-- Farewell: how it found its destinations matters no more.
DELETE FROM outbox_lane WHERE relay_id = ?1
