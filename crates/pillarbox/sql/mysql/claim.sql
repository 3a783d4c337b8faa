-- Claim, second part: writes the lease into the locked events. ?1 a JSON array of seqs, ?2 seconds, ?3 token, ?4 losses before an
-- event is sent alone.
UPDATE json_table(?1, '$[*]' COLUMNS (seq BIGINT PATH '$')) AS taken STRAIGHT_JOIN outbox_event AS event FORCE INDEX (PRIMARY) ON event.seq = taken.seq
-- MySQL and MariaDB assign from left to right: claims must be computed before claimed_by changes.
SET event.claims = event.claims + (event.claimed_by IS NOT NULL)
             -- For an event that is sent alone, a loss counts only after its relay reported that nothing else is sent:
             -- blame.sql.
             - (event.claims + (event.claimed_by IS NOT NULL) >= ?4),
    event.claimed_by = ?3,
    event.next_attempt_at = utc_timestamp(6) + INTERVAL least(?2, 3e9) * 1e6 MICROSECOND,
    event.updated_at = utc_timestamp(6)
