-- Examine: the settings of a session of the store. Older versions of MariaDB have tx_isolation, MySQL has transaction_isolation.
SHOW SESSION VARIABLES WHERE Variable_name IN ('tx_isolation', 'transaction_isolation', 'sql_mode')
