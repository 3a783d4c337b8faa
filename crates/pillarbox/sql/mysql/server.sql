-- Reads the settings of the server that decide whether an outbox can work on it.
SHOW VARIABLES WHERE Variable_name IN ('version', 'wsrep_on')
