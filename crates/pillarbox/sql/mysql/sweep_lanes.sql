-- Sweep: deletes the lanes of deleted relays.
DELETE FROM outbox_lane WHERE relay_id NOT IN (SELECT id FROM outbox_relay)
