-- Sweep: how relays found their destinations that are no more.
DELETE FROM outbox_lane WHERE relay_id NOT IN (SELECT id FROM outbox_relay)
