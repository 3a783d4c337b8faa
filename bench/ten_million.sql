-- Ten million events, to measure what people look at: into the tables of a fresh `pillarbox migrate`, on a PostgreSQL that has
-- memory (PILLARBOX_SERVERS=durable scripts/servers start). Takes about five minutes and 5 GB:
--
--     psql -v ON_ERROR_STOP=1 -f bench/ten_million.sql DATABASE
--
-- 9.5 million delivered over thirty days, 300,000 pending (a third each due, scheduled, and parked on two destinations, with a few
-- sending), 200,000 failed in eight ways over the same time, and what is kept of their attempts and fan-outs. Forty event types
-- of eight aggregate types, a million aggregates. `-v events=100000` makes fewer, in the same proportions.
\set ON_ERROR_STOP on
\if :{?events}
\else
    \set events 10000000
\endif
\timing on

BEGIN;
SET LOCAL synchronous_commit = off;
SET LOCAL maintenance_work_mem = '512MB';

-- Filled without its indexes, which are made again as they were.
CREATE TEMP TABLE made_again ON COMMIT DROP AS
SELECT indexdef, indexname FROM pg_indexes
WHERE tablename = 'outbox_event' AND schemaname = current_schema()
  AND indexname NOT IN (SELECT conname FROM pg_constraint WHERE conrelid = 'outbox_event'::regclass);
SELECT format('DROP INDEX %I', indexname) FROM made_again \gexec
ALTER TABLE outbox_event DROP CONSTRAINT outbox_event_key, DROP CONSTRAINT outbox_event_pkey;

-- Every event has its moment in the last thirty days, and an id that follows it, as a UUID v7 does.
INSERT INTO outbox_event
    (id, aggregate_type, aggregate_id, event_type, payload, headers, status, idempotency_key, attempts, next_attempt_at,
     claimed_by, parked_on, delivered_at, error_message, created_at, updated_at)
SELECT (lpad(to_hex((extract(epoch FROM created_at) * 1000)::bigint), 12, '0')
            || '7' || substr(md5(number::text), 1, 3) || '8' || substr(md5(number::text), 4, 15))::uuid,
       kind, (number::bigint * 7919 % 1000000)::text, lower(kind) || '.' || (ARRAY['placed', 'paid', 'shipped', 'closed', 'noted'])[1 + number / 8 % 5],
       jsonb_build_object('number', number, 'customer', md5(number::text), 'total', number % 10000 / 100.0,
                          'lines', jsonb_build_array(jsonb_build_object('sku', number % 977, 'count', number % 5))),
       CASE WHEN number % 3 = 0 THEN jsonb_build_object('traceparent', '00-' || md5(number::text) || '-00f067aa0ba902b7-01') END,
       status, 'key-' || number, CASE WHEN status = 'failed' THEN 5 ELSE 0 END,
       CASE WHEN status = 'pending' THEN
            CASE number % 3 WHEN 1 THEN clock_timestamp() + (number % 86400 + 60) * interval '1 second'
                            ELSE created_at END END,
       CASE WHEN status = 'pending' AND number % 3 = 1 AND number % 500 = 1 THEN gen_random_uuid() END,
       CASE WHEN status = 'pending' AND number % 3 = 2 THEN (ARRAY['warehouse', 'mailer'])[1 + number % 2] END,
       CASE WHEN status = 'delivered' THEN created_at + (number % 997) * interval '3 ms' END,
       CASE WHEN status = 'failed' THEN
            CASE number % 8
                WHEN 0 THEN 'HTTP 500: order ' || number || ' is locked by session ' || md5(number::text)
                WHEN 1 THEN 'HTTP 422: {"error":"unknown sku ' || number % 977 || '"}'
                WHEN 2 THEN 'connection to 10.0.' || number % 200 || '.7:' || 30000 + number % 9999 || ' refused'
                WHEN 3 THEN 'HTTP 404: no customer "' || md5(number::text) || '"'
                WHEN 4 THEN 'timed out after ' || number % 30 || '.' || number % 10 || ' s'
                WHEN 5 THEN 'HTTP 403: the token has expired'
                WHEN 6 THEN 'queue orders-' || number % 20 || ' refused the message'
                ELSE 'HTTP 400: field "total" is not a number: ' || number % 100 END
            ELSE '' END,
       created_at, created_at + CASE WHEN status = 'failed' THEN interval '10 minutes' ELSE interval '1 second' END
FROM (
    SELECT number, (ARRAY['Order', 'Invoice', 'Customer', 'Shipment', 'Payment', 'File', 'Ticket', 'Account'])[1 + number % 8] AS kind,
           clock_timestamp() - interval '30 days' * (1 - number::float8 / :events) - interval '15 minutes' AS created_at,
           -- Two in a hundred fail, and the last three in a hundred are waited for.
           CASE WHEN number > 0.97 * :events THEN 'pending' WHEN number % 97 < 2 THEN 'failed' ELSE 'delivered' END AS status
    FROM generate_series(1, :events) AS number
) AS made;

ALTER TABLE outbox_event ADD CONSTRAINT outbox_event_pkey PRIMARY KEY (id);
ALTER TABLE outbox_event ADD CONSTRAINT outbox_event_key UNIQUE (event_type, idempotency_key);
SELECT indexdef FROM made_again \gexec

-- What is kept of the failed ones: two attempts each, and for one in ten a fan-out of which one destination has it.
INSERT INTO outbox_attempt (event_id, number, destination, attempted_at, took_ms, status_code, error, answer)
SELECT id, number, (ARRAY['warehouse', 'mailer', 'ledger'])[1 + seq % 3], updated_at - (2 - number) * interval '5 minutes',
       seq % 400, 500, error_message, '{"error": "see the log"}'
FROM outbox_event, generate_series(1, 2) AS number WHERE status = 'failed';

INSERT INTO outbox_delivery (event_id, destination, status, attempts, next_attempt_at, delivered_at, error)
SELECT id, destination, CASE destination WHEN 'ledger' THEN 'delivered' ELSE 'failed' END, 5, NULL,
       CASE destination WHEN 'ledger' THEN updated_at END, CASE destination WHEN 'ledger' THEN '' ELSE error_message END
FROM outbox_event, unnest(ARRAY['ledger', 'warehouse']) AS destination WHERE status = 'failed' AND seq % 10 = 0;
COMMIT;

VACUUM (ANALYZE) outbox_event;
VACUUM (ANALYZE) outbox_attempt;
VACUUM (ANALYZE) outbox_delivery;
