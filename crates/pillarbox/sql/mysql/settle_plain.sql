-- Settle: events that were delivered, and about which nothing else is stored; each only if the lease still holds it. The program
-- inserts its own numbers: {attempts}, {token} in hexadecimal digits, {seqs} a list.
UPDATE outbox_event FORCE INDEX (PRIMARY)
SET status = 'delivered', attempts = {attempts}, claims = 0, next_attempt_at = NULL, claimed_by = NULL, parked_on = NULL,
    delivered_at = utc_timestamp(6), error_message = '', updated_at = utc_timestamp(6)
WHERE seq IN ({seqs}) AND claimed_by = x'{token}' AND status = 'pending'
