-- Dead letters: the columns that groups need. list.sql is inserted here, along list_failed.sql; its values are bound.
SELECT id, aggregate_type, updated_at, failed_on, event_type, error_message, number, matches, clock_timestamp() AS now FROM (
{list}
) AS letter
