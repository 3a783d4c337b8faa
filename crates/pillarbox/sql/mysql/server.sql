-- Reads the settings of the server that matter to an outbox.
SHOW VARIABLES WHERE Variable_name IN ('version', 'wsrep_on', 'sql_mode', 'read_only', 'log_bin', 'binlog_format',
                                       'max_allowed_packet', 'innodb_flush_log_at_trx_commit')
