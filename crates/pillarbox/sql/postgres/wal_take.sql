-- Wal disable: takes the log from its leader, whose next heartbeat finds that it does not lead any more. $1 the id of this command.
UPDATE {schema}.outbox_log
SET leader = $1, leader_until = clock_timestamp() + interval '1 minute', epoch = epoch + 1, leaving = true
RETURNING slot::text, publication::text
