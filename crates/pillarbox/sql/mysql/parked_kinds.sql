-- Returns the distinct kinds of the events parked on ?1.
SELECT DISTINCT event_type, aggregate_type
FROM outbox_event
WHERE parked_on = ?1 AND status = 'pending'
