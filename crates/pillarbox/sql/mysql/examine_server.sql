-- Examine: the settings of the server now, which other sessions get.
SHOW GLOBAL VARIABLES WHERE Variable_name IN ('read_only', 'sql_mode', 'log_bin', 'binlog_format', 'innodb_lock_wait_timeout',
                                              'innodb_flush_log_at_trx_commit')
