-- Settle: adds the attempts of this round, numbered after the existing ones, and deletes the oldest beyond $8 per event.
-- $1 event ids, $2 destinations, $3 milliseconds, $4 status codes, $5 errors, $6 responses, $7 positions within the event,
-- $9 whether they succeeded.
WITH last AS MATERIALIZED (
    SELECT event_id, max(number) AS number FROM {schema}.outbox_attempt WHERE event_id = ANY ($1) GROUP BY event_id
), numbered AS MATERIALIZED (
    SELECT given.*, coalesce(last.number, 0) + given.position AS number
    FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::int[], $5::text[], $6::text[], $7::int[], $9::boolean[])
        AS given (event_id, destination, took_ms, status_code, error, answer, position, delivered)
    LEFT JOIN last USING (event_id)
), newest AS MATERIALIZED (
    SELECT event_id, max(number) AS number FROM numbered GROUP BY event_id
), pruned AS (
    DELETE FROM {schema}.outbox_attempt AS attempt USING newest
    WHERE attempt.event_id = newest.event_id AND attempt.number <= newest.number - $8
)
INSERT INTO {schema}.outbox_attempt (event_id, number, destination, took_ms, status_code, error, answer, delivered)
SELECT event_id, numbered.number, destination, took_ms, status_code, error, answer, delivered
FROM numbered JOIN newest USING (event_id)
WHERE numbered.number > newest.number - $8
