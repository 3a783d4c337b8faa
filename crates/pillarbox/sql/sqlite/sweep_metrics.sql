-- Sweep: deletes metrics older than a day.
DELETE FROM outbox_figure WHERE minute < strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '-25 hours')
