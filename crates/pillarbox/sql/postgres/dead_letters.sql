-- Dead letters: what matters of those that list.sql finds. The list is put in here, along list_failed.sql; the values are its own.
SELECT updated_at, failed_on, event_type, error_message, number, matches, clock_timestamp() AS now FROM (
{list}
) AS letter
