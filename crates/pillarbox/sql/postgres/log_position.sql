-- Spill: stores the position below which every event is delivered or in the table. $1 epoch, $2 position.
UPDATE {schema}.outbox_log SET confirmed = greatest(confirmed, $2::text::pg_lsn) WHERE epoch = $1
