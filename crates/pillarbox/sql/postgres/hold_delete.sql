-- Settle with on_delivered = "delete": deletes events that this transaction holds and that were delivered at the first
-- attempt. They have no deliveries or attempts. $1 ids.
DELETE FROM {schema}.outbox_event WHERE id = ANY ($1)
