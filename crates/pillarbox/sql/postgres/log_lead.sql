-- Lead: takes the reading of the log if nobody has it: the last leader gave it back, or its lease has run out by the server's
-- clock, or it is the same relay, after a standby was promoted. The epoch rises, so that a leader that comes back too late can write
-- nothing. The lead is valid on this timeline only: a promoted standby may not have the last epoch. A relay that does not know a table of
-- the publication does not lead: it would pass its rows by. $1 leader, $2 seconds of the lease, $3 and $4 schema and name of the table
-- that it knows, or NULL.
WITH before AS MATERIALIZED (
    SELECT leader FROM {schema}.outbox_log AS log
    WHERE (leader IS NULL OR leader = $1 OR leader_until <= clock_timestamp())
      AND NOT EXISTS (
          SELECT FROM pg_publication_tables AS published
          WHERE published.pubname = log.publication
            AND (published.schemaname = $3::text AND published.tablename = $4::text) IS NOT TRUE
      )
    FOR UPDATE OF log SKIP LOCKED
)
UPDATE {schema}.outbox_log AS log
SET leader = $1, leader_until = clock_timestamp() + $2 * interval '1 second', epoch = log.epoch + 1
FROM before
RETURNING log.epoch, (SELECT secret FROM {schema}.outbox_log_key), log.slot::text, log.publication::text, log.confirmed::text,
          coalesce(before.leader <> $1, false), {schema}.outbox_log_timeline()
