-- Deletes a batch of events that were recorded at least $1 seconds ago. Rows that another cleanup deletes are left to it.
DELETE FROM inbox_event WHERE (consumer, id) IN (
    SELECT consumer, id FROM inbox_event
    WHERE received_at <= now() - make_interval(secs => $1::float8)
    ORDER BY received_at LIMIT $2::int8
    FOR UPDATE SKIP LOCKED
)
