-- Settle with on_delivered = "delete" what this transaction holds and was delivered at the first try: nothing else is kept
-- of it. $1 ids.
DELETE FROM {schema}.outbox_event WHERE id = ANY ($1)
