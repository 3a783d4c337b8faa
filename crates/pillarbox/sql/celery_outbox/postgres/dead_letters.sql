-- Returns the number of dead letters.
SELECT count(*) FROM {schema}.celery_outbox_dead_letter
