-- Pour: marks the transaction that inserts a large transaction of the log while it arrives. The next leader finds it by this lock, if its
-- leader hangs: it would wait for the rows. $1 slot.
SELECT pg_advisory_xact_lock_shared(hashtext('pillarbox/pour'), hashtext($1))
