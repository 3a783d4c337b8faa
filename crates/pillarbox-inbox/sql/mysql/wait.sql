-- Bounds the wait of `record`, in seconds, and keeps the session's own bound for `restore`, also if a cancelled task left it out.
-- The time of the row is kept, too: `committed` and `forget` know the row by it.
SET @inbox_lock_wait = cast(coalesce(@inbox_lock_wait, @@innodb_lock_wait_timeout) AS signed), innodb_lock_wait_timeout = ?,
    @inbox_received_at = utc_timestamp(6)
