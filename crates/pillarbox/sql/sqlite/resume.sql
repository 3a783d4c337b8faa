-- Resume: events go to ?1 again.
DELETE FROM outbox_paused WHERE destination = ?1
