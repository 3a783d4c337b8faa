-- Settle: deletes locked tasks. The program inserts {ids}, a list of numbers.
DELETE task FROM celery_outbox AS task FORCE INDEX (PRIMARY) WHERE task.id IN ({ids})
