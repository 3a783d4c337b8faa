-- Claim with order = "aggregate": locks the events of a page that are not blocked, unless another relay took them since.
-- ?1 a JSON array of seqs, ?2 losses from which on an event is left out.
SELECT event.seq, octet_length(event.payload) AS bytes, event.claims + (event.claimed_by IS NOT NULL) AS losses,
       event.claimed_by IS NULL AND event.updated_at = event.created_at AS fresh
FROM json_table(?1, '$[*]' COLUMNS (seq BIGINT PATH '$')) AS free STRAIGHT_JOIN outbox_event AS event FORCE INDEX (PRIMARY) ON event.seq = free.seq
WHERE event.parked_on IS NULL AND event.next_attempt_at <= utc_timestamp(6)
  AND event.claims + (event.claimed_by IS NOT NULL) < ?2
FOR UPDATE SKIP LOCKED
