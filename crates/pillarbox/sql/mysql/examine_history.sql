-- Examine: how many old row versions the server keeps because a transaction may still read them, where the server tells it without
-- further rights.
SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'
