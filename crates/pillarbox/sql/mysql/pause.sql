-- Pause: stops sending to ?1, for the person ?2. A destination that is already paused is unchanged.
INSERT INTO outbox_paused (destination, paused_by)
SELECT ?1, ?2 FROM (SELECT count(*) AS count FROM outbox_paused WHERE destination = ?1) AS paused WHERE paused.count = 0
