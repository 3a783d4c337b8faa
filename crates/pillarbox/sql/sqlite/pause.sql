-- Pause: nothing is sent to ?1 any more, because ?2 said so. One that is paused already stays as it is.
INSERT INTO outbox_paused (destination, paused_by) VALUES (?1, ?2) ON CONFLICT (destination) DO NOTHING
