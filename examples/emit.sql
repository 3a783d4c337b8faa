-- Emit from any language: outbox_emit in the transaction that writes the data. The tables are made by `pillarbox migrate`.
--
--   psql "$DATABASE_URL" -v ON_ERROR_STOP=1 -f examples/emit.sql

CREATE TABLE IF NOT EXISTS example_order (id bigint GENERATED ALWAYS AS IDENTITY, cents bigint);

BEGIN;
WITH placed AS (INSERT INTO example_order (cents) VALUES (1990) RETURNING id, cents)
SELECT outbox_emit('Order', id::text, 'order.placed', jsonb_build_object('cents', cents)) FROM placed;
COMMIT;

-- Everything that can be said, by name. The key of an event that may happen again must be one of its own.
BEGIN;
SELECT outbox_emit(
    aggregate_type => 'Order', aggregate_id => '42', event_type => 'order.reminder', payload => '{"n": 1}',
    idempotency_key => gen_random_uuid()::text, headers => '{"tenant": "acme"}', max_attempts => 3,
    deliver_at => clock_timestamp() + interval '1 hour');
COMMIT;

-- A rollback emits nothing.
BEGIN;
SELECT outbox_emit('Order', '0', 'order.lost');
ROLLBACK;
