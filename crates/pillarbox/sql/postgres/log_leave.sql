-- Leave: stores the position, closes the gate, and gives the reading of the log back. $1 leader, $2 epoch, $3 position, $4 timeline
-- of the lead.
WITH left_by AS (
    UPDATE {schema}.outbox_log
    SET leader = NULL, leader_until = NULL, confirmed = greatest(confirmed, $3::text::pg_lsn),
        closed = 'no relay reads the log'
    WHERE leader = $1 AND epoch = $2 AND {schema}.outbox_log_timeline() = $4::text
    RETURNING confirmed
)
SELECT confirmed::text, setval('{schema}.outbox_log_until'::regclass, 0) FROM left_by
