-- Bounds the wait of `record`, in milliseconds, and keeps the session's own bound for `restore`. Both end with the transaction.
SELECT set_config('pillarbox.lock_timeout', current_setting('lock_timeout'), true) AS own,
    set_config('lock_timeout', $1, true) AS bound
