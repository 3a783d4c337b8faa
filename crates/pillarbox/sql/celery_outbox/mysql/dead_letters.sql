-- Returns the number of dead letters.
SELECT count(*) AS dead_letters FROM celery_outbox_dead_letter
