-- Claim, third part: marks the locked tasks as in flight. The program inserts {at}, the time of the claim, and {ids}, a list of
-- numbers. It clears retry_after, so that a retried task is not selected again while it is in flight.
UPDATE celery_outbox FORCE INDEX (PRIMARY) SET updated_at = '{at}', retry_after = NULL WHERE id IN ({ids})
