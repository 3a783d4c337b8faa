-- Sweep: deletes metrics older than a day.
DELETE FROM outbox_figure WHERE minute < utc_timestamp(6) - INTERVAL 25 HOUR
