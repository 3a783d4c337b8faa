-- Claim for handlers in Python, second part: locks the events of the first part, unless somebody else took them since.
-- ?1 a JSON array of seqs, ?2 limit, ?3 losses from which on an event is left out. Not sorted: a sort would lock them all.
SELECT event.id, event.seq, event.claims + (event.claimed_by IS NOT NULL) AS losses
FROM json_table(?1, '$[*]' COLUMNS (seq BIGINT PATH '$')) AS found STRAIGHT_JOIN outbox_event AS event FORCE INDEX (PRIMARY) ON event.seq = found.seq
WHERE event.status = 'pending' AND event.claims + (event.claimed_by IS NOT NULL) < ?3
  AND (event.parked_on = 'unrouted' OR event.parked_on IS NULL AND event.next_attempt_at <= utc_timestamp(6))
LIMIT ?2
FOR UPDATE SKIP LOCKED
