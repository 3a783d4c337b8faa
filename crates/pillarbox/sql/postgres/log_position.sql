-- Spill: stores the position below which every event is delivered or in the table. $1 epoch, $2 position, $3 the fence's
-- synchronous_commit: a settle in between has set it to off.
UPDATE {schema}.outbox_log
SET confirmed = greatest(confirmed, $2::text::pg_lsn)
FROM (SELECT set_config('synchronous_commit', $3, true)) AS durable
WHERE epoch = $1
