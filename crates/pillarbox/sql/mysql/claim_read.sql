-- Claim: the payloads of large events that are taken. ?1 a JSON array of seqs.
SELECT event.seq, event.payload
FROM json_table(?1, '$[*]' COLUMNS (seq BIGINT PATH '$')) AS taken
STRAIGHT_JOIN outbox_event AS event FORCE INDEX (PRIMARY) ON event.seq = taken.seq
