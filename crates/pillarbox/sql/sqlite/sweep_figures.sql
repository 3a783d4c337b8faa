-- Sweep: figures older than a day are forgotten.
DELETE FROM outbox_figure WHERE minute < strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '-25 hours')
