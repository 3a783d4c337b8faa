-- How many dead letters there are.
SELECT count(*) FROM {schema}.celery_outbox_dead_letter
