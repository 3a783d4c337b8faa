-- Replay: emits delivered and failed events again, as new events that are due now, and returns their ids. Each key gets the next
-- number, so that it is no duplicate. If another event took the number first, the result has no row for the event. ?1 ids, ?2 ids
-- of the new events, ?3 keys without a number (JSON arrays), ?4 the separator, ?5 the header of the old id, ?6 the header of the
-- only destination, ?7 that destination; null for all, which removes the header.
INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key, max_attempts)
SELECT made.id, made.aggregate_type, made.aggregate_id, made.event_type, made.payload, made.headers, made.idempotency_key,
       made.max_attempts
FROM (
    SELECT given.new_id AS id, event.aggregate_type, event.aggregate_id, event.event_type, event.payload, event.max_attempts,
           json_merge_patch(coalesce(event.headers, '{}'), json_object(?5, lower(concat_ws('-',
               substr(hex(event.id), 1, 8), substr(hex(event.id), 9, 4), substr(hex(event.id), 13, 4),
               substr(hex(event.id), 17, 4), substr(hex(event.id), 21))), ?6, ?7)) AS headers,
           -- Between the digits 0 and 9, by the index of keys; ':' follows '9'.
           concat(given.stem, 1 + coalesce((
               SELECT max(CAST(substr(other.idempotency_key, char_length(given.stem) + 1) AS SIGNED))
               FROM outbox_event AS other
               WHERE other.event_type = event.event_type
                 AND other.idempotency_key >= concat(given.stem, '0') AND other.idempotency_key < concat(given.stem, ':')
                 AND substr(other.idempotency_key, char_length(given.stem) + 1) REGEXP '^[0-9]{1,9}$'), 0)) AS idempotency_key
    FROM (
        SELECT unhex(asked.id) AS id, unhex(json_unquote(json_extract(?2, concat('$[', asked.place - 1, ']')))) AS new_id,
               concat(json_unquote(json_extract(?3, concat('$[', asked.place - 1, ']'))), ?4) AS stem
        FROM json_table(?1, '$[*]' COLUMNS (place FOR ORDINALITY, id CHAR(32) CHARACTER SET utf8mb4 PATH '$')) AS asked
    ) AS given
    STRAIGHT_JOIN outbox_event AS event FORCE INDEX (outbox_event_id) ON event.id = given.id
    WHERE event.status <> 'pending'
    ORDER BY event.seq
    LIMIT 1000000
) AS made
ON DUPLICATE KEY UPDATE id = outbox_event.id;
SELECT id FROM outbox_event
WHERE id IN (SELECT unhex(made.id) FROM json_table(?2, '$[*]' COLUMNS (id CHAR(32) CHARACTER SET utf8mb4 PATH '$')) AS made)
