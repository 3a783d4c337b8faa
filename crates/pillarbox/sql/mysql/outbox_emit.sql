-- Emit from any language, inside the caller's transaction, with the defaults and checks of the Rust crate, and the arguments of
-- PostgreSQL's function in their order. NULL stands for a default. Returns the event's id as text. A duplicate is error 1062, and
-- leaves the transaction usable. deliver_at is in UTC. The payload's limit is 1 MiB, or the variable @pillarbox_payload_limit.
CREATE PROCEDURE outbox_emit(
    IN aggregate_type TEXT CHARACTER SET utf8mb4, IN aggregate_id TEXT CHARACTER SET utf8mb4,
    IN event_type TEXT CHARACTER SET utf8mb4, IN payload LONGTEXT CHARACTER SET utf8mb4,
    IN idempotency_key TEXT CHARACTER SET utf8mb4, IN headers LONGTEXT CHARACTER SET utf8mb4,
    IN max_attempts INTEGER, IN deliver_at DATETIME(6))
    MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE event_key TEXT CHARACTER SET utf8mb4 DEFAULT coalesce(idempotency_key, concat(aggregate_type, ':', aggregate_id));
    DECLARE size_limit BIGINT DEFAULT coalesce(@pillarbox_payload_limit, 1048576);
    DECLARE why TEXT CHARACTER SET utf8mb4;
    DECLARE EXIT HANDLER FOR 1062
    BEGIN
        SET why = left(concat('an event "', event_type, '" with the idempotency key "', event_key, '" exists already'), 128);
        SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO = 1062, MESSAGE_TEXT = why;
    END;
    SET payload = coalesce(payload, '{}');
    SET why = CASE
        WHEN coalesce(aggregate_type, '') = '' THEN 'aggregate_type is empty; give it at least one character'
        WHEN coalesce(aggregate_id, '') = '' THEN 'aggregate_id is empty; give it at least one character'
        WHEN coalesce(event_type, '') = '' THEN 'event_type is empty; give it at least one character'
        WHEN event_key = '' THEN 'idempotency_key is empty; give it at least one character'
        WHEN char_length(aggregate_type) > 100 THEN concat('aggregate_type has ', char_length(aggregate_type), ' characters, the limit is 100')
        WHEN char_length(aggregate_id) > 100 THEN concat('aggregate_id has ', char_length(aggregate_id), ' characters, the limit is 100')
        WHEN char_length(event_type) > 255 THEN concat('event_type has ', char_length(event_type), ' characters, the limit is 255')
        WHEN char_length(event_key) > 255 THEN concat('idempotency_key has ', char_length(event_key), ' characters, the limit is 255')
        -- Its payload would choose what Celery's workers run: only producers of tasks write this type.
        WHEN aggregate_type = 'celery' COLLATE utf8mb4_bin THEN 'aggregate_type "celery" is reserved for recorded Celery tasks; choose another'
        WHEN length(payload) > size_limit THEN concat('the payload has ', length(payload), ' bytes of JSON, the limit is ', size_limit)
        WHEN headers IS NOT NULL AND NOT (json_valid(headers) AND json_type(headers) = 'OBJECT') THEN 'headers is not a JSON object'
        WHEN max_attempts < 0 THEN concat('max_attempts is ', max_attempts, '; 0 means never give up')
        WHEN deliver_at > utc_timestamp(6) + INTERVAL 100 YEAR THEN 'deliver_at is later than 100 years from now'
        END;
    IF why IS NOT NULL THEN
        SET why = concat('the event was not emitted: ', why);
        SIGNAL SQLSTATE '22023' SET MYSQL_ERRNO = 1644, MESSAGE_TEXT = why;
    END IF;
    INSERT INTO outbox_event (aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key, max_attempts,
                              next_attempt_at)
    VALUES (aggregate_type, aggregate_id, event_type, payload, headers, event_key, max_attempts,
            coalesce(greatest(deliver_at, utc_timestamp(6)), utc_timestamp(6)));
    SELECT lower(concat_ws('-', substr(hex(event.id), 1, 8), substr(hex(event.id), 9, 4), substr(hex(event.id), 13, 4),
                           substr(hex(event.id), 17, 4), substr(hex(event.id), 21))) AS id
    FROM outbox_event AS event WHERE event.seq = last_insert_id();
END
