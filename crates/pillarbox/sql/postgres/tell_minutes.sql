-- Tell: writes the results of destinations per minute, as one relay currently knows them. $1 the relay, $2 minutes as JSON.
INSERT INTO {schema}.outbox_figure (minute, relay_id, destination, delivered, failed, given_up, latency, response)
SELECT at, $1, destination, delivered, failed, given_up, latency, response
FROM jsonb_to_recordset($2::jsonb)
     AS told (at timestamptz, destination text, delivered bigint, failed bigint, given_up bigint, latency jsonb, response jsonb)
ON CONFLICT (minute, relay_id, destination) DO UPDATE
SET delivered = excluded.delivered, failed = excluded.failed, given_up = excluded.given_up, latency = excluded.latency,
    response = excluded.response
