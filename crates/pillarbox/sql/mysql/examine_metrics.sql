-- Examine: the length of the history list on MySQL, which does not have it among its status variables. Needs the right PROCESS.
SELECT NAME, CAST(`COUNT` AS CHAR) AS length FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'
