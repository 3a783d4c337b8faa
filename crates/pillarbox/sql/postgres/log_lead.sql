-- Lead: takes the reading of the log if nobody has it: the last leader gave it back, or its lease has run out by the server's
-- clock. The epoch rises, so that a leader that comes back too late can write nothing. $1 leader, $2 seconds of the lease.
WITH before AS MATERIALIZED (
    SELECT leader FROM {schema}.outbox_log WHERE leader IS NULL OR leader_until <= clock_timestamp() FOR UPDATE SKIP LOCKED
)
UPDATE {schema}.outbox_log AS log
SET leader = $1, leader_until = clock_timestamp() + $2 * interval '1 second', epoch = log.epoch + 1
FROM before
RETURNING log.epoch, (SELECT secret FROM {schema}.outbox_log_key), log.slot::text, log.publication::text, log.confirmed::text, before.leader IS NOT NULL
