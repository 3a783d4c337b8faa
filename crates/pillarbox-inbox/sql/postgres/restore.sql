-- Gives the handler the session's own bound again.
SELECT set_config('lock_timeout', current_setting('pillarbox.lock_timeout'), true)
