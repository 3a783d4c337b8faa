-- Gives the handler the session's own bound again. It outlives the transaction, so `restore` always runs.
SET innodb_lock_wait_timeout = @inbox_lock_wait, @inbox_lock_wait = NULL
