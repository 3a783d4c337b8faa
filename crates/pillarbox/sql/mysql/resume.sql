-- Resume: sends events to ?1 again.
DELETE FROM outbox_paused WHERE destination = ?1
