-- Claim, second part: writes the lease into the locked events, all with the same losses. The program inserts its own numbers:
-- {claims} the losses that count, {seconds}, {token} in hexadecimal digits, {seqs} a list. A list of numbers is much faster than a
-- join with JSON_TABLE, which puts the rows into a temporary table first.
UPDATE outbox_event FORCE INDEX (PRIMARY)
SET claims = {claims},
    claimed_by = x'{token}',
    next_attempt_at = utc_timestamp(6) + INTERVAL least({seconds}, 3e9) * 1e6 MICROSECOND,
    updated_at = utc_timestamp(6)
WHERE seq IN ({seqs})
