-- Returns the distinct kinds of the events parked on $1.
SELECT DISTINCT event_type::text, aggregate_type::text
FROM {schema}.outbox_event
WHERE parked_on = $1 AND status = 'pending'
