-- Tell: writes the results of destinations per minute, as one relay currently knows them. ?1 the relay, ?2 minutes as JSON.
INSERT INTO outbox_figure (minute, relay_id, destination, delivered, failed, given_up, latency, response)
SELECT value ->> 'at', ?1, value ->> 'destination', value ->> 'delivered', value ->> 'failed', value ->> 'given_up',
       value -> 'latency', value -> 'response'
FROM json_each(?2)
WHERE true
ON CONFLICT (minute, relay_id, destination) DO UPDATE
SET delivered = excluded.delivered, failed = excluded.failed, given_up = excluded.given_up, latency = excluded.latency,
    response = excluded.response
