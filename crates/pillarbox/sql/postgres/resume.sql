-- Resume: sends events to $1 again.
DELETE FROM {schema}.outbox_paused WHERE destination = $1
