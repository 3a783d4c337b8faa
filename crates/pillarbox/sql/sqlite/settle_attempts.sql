-- Settle: adds the attempts of this round, numbered after the existing ones (SQLite reads them all before it inserts).
-- ?1 a JSON array of [event id, destination, milliseconds, status code, error, response, position within the event,
-- whether it succeeded (0 or 1)].
INSERT INTO outbox_attempt (event_id, number, destination, took_ms, status_code, error, answer, delivered)
SELECT value ->> 0,
       coalesce((SELECT max(number) FROM outbox_attempt WHERE event_id = value ->> 0), 0) + (value ->> 6),
       value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 7
FROM json_each(?1)
