-- Claim for handlers in Python, third part: as claim.sql, and an event for which a relay found no route is parked no more.
-- ?1 a JSON array of [seq, losses that count], ?2 seconds, ?3 token.
UPDATE json_table(?1, '$[*]' COLUMNS (seq BIGINT PATH '$[0]', claims SMALLINT PATH '$[1]')) AS taken
STRAIGHT_JOIN outbox_event AS event FORCE INDEX (PRIMARY) ON event.seq = taken.seq
SET event.claims = taken.claims,
    event.claimed_by = ?3,
    event.parked_on = NULL,
    event.next_attempt_at = utc_timestamp(6) + INTERVAL least(?2, 3e9) * 1e6 MICROSECOND,
    event.updated_at = utc_timestamp(6)
