-- Settle with on_delivered = "delete": deletes delivered events, each only if the lease still holds it. The program inserts its own
-- numbers: {token} in hexadecimal digits, {seqs} a list.
DELETE event FROM outbox_event AS event FORCE INDEX (PRIMARY)
WHERE event.seq IN ({seqs}) AND event.claimed_by = x'{token}' AND event.status = 'pending'
