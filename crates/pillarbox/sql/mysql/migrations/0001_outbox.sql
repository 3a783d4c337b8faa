-- The outbox. Names and meaning are those on PostgreSQL; a plain INSERT with the columns' defaults emits.
-- Least program: 0.1.0
-- Works with MariaDB 10.6 and MySQL 8.0.19 and later. DDL commits by itself, so every statement here can run again after a
-- migration that was cut off. {collation} is the server's binary collation without padding: the default ones take `Order` and
-- `order` for one name. Times are DATETIME(6) in UTC, by utc_timestamp(6). See docs/design/mysql.md.

CREATE TABLE IF NOT EXISTS outbox_event (
    -- The primary key, because InnoDB adds it to every index: the index of due events is in the order of seq by itself.
    seq              BIGINT NOT NULL AUTO_INCREMENT,
    -- A UUID v7: 48 bits of milliseconds, then chance, with the version and the variant in their places.
    id               BINARY(16) NOT NULL DEFAULT (unhex(concat(
        lpad(hex(timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6)) DIV 1000), 12, '0'),
        '7', substr(md5(concat(uuid(), rand())), 1, 3),
        substr('89ab', 1 + floor(rand() * 4), 1), substr(md5(concat(rand(), uuid())), 1, 15)))),
    aggregate_type   VARCHAR(100) NOT NULL,
    aggregate_id     VARCHAR(100) NOT NULL,
    event_type       VARCHAR(255) NOT NULL,
    -- Not the type JSON: MySQL would change the text and round large numbers.
    payload          LONGTEXT NOT NULL DEFAULT ('{}'),
    headers          LONGTEXT,
    status           VARCHAR(20) NOT NULL DEFAULT 'pending',
    idempotency_key  VARCHAR(255) NOT NULL DEFAULT (concat(aggregate_type, ':', aggregate_id)),
    attempts         INTEGER NOT NULL DEFAULT 0,
    max_attempts     INTEGER,
    claims           SMALLINT NOT NULL DEFAULT 0,
    next_attempt_at  DATETIME(6) DEFAULT (utc_timestamp(6)),
    claimed_by       BINARY(16),
    parked_on        VARCHAR(255),
    delivered_at     DATETIME(6),
    error_message    TEXT NOT NULL DEFAULT (''),
    created_at       DATETIME(6) NOT NULL DEFAULT (utc_timestamp(6)),
    updated_at       DATETIME(6) NOT NULL DEFAULT (utc_timestamp(6)),
    -- When the event became terminal. There are no partial indexes, and without this column every claim would write the index of
    -- terminal events.
    done_at          DATETIME(6) GENERATED ALWAYS AS
                     (CASE status WHEN 'delivered' THEN delivered_at WHEN 'failed' THEN updated_at END) STORED,
    PRIMARY KEY (seq),
    CONSTRAINT outbox_event_id UNIQUE (id),
    CONSTRAINT outbox_event_key UNIQUE (event_type, idempotency_key),
    CONSTRAINT outbox_event_names CHECK (aggregate_type <> '' AND aggregate_id <> '' AND event_type <> ''
                                         AND idempotency_key <> '' AND parked_on <> ''),
    -- MariaDB reads 31 levels of nesting and MySQL 100: what may be deeper is accepted, and checked when it is claimed.
    CONSTRAINT outbox_event_payload CHECK (
        json_valid(payload) OR length(payload) - length(replace(replace(payload, '[', ''), '{', '')) > 31),
    CONSTRAINT outbox_event_headers CHECK (headers IS NULL OR (json_valid(headers) AND json_type(headers) = 'OBJECT')),
    CONSTRAINT outbox_event_status CHECK (status IN ('pending', 'delivered', 'failed')),
    -- A pending event without a time would never be claimed, and a terminal one must not be.
    CONSTRAINT outbox_event_time CHECK ((status = 'pending') = (next_attempt_at IS NOT NULL)),
    CONSTRAINT outbox_event_attempts CHECK (attempts >= 0 AND max_attempts >= 0),
    -- Due events have no parked_on, and parked events have one. Terminal events have no time, and are before both.
    INDEX outbox_event_due (parked_on, next_attempt_at, seq),
    -- For cleanup, and for people who count.
    INDEX outbox_event_done (status, done_at, seq),
    -- For order = "aggregate": what of an aggregate may have to be sent first.
    INDEX outbox_event_order (aggregate_type, aggregate_id, status, seq),
    -- What may have killed its relays. Nearly all entries are 0, and do not change.
    INDEX outbox_event_suspect (claims)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE {collation};

-- One row per destination of a fan-out that did not succeed at once.
CREATE TABLE IF NOT EXISTS outbox_delivery (
    event_id         BINARY(16) NOT NULL,
    destination      VARCHAR(255) NOT NULL,
    status           VARCHAR(20) NOT NULL DEFAULT 'pending',
    attempts         INTEGER NOT NULL DEFAULT 0,
    next_attempt_at  DATETIME(6),
    delivered_at     DATETIME(6),
    error            TEXT NOT NULL DEFAULT (''),
    -- It waits for its destination, whatever the event's other destinations do.
    parked           BOOLEAN NOT NULL DEFAULT false,
    PRIMARY KEY (event_id, destination),
    CONSTRAINT outbox_delivery_status CHECK (status IN ('pending', 'delivered', 'failed')),
    INDEX outbox_delivery_parked (parked, destination, event_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE {collation};

-- Failed attempts, for people to look at, the latest of each event. With relay.record_attempts = "all" also the successful ones.
CREATE TABLE IF NOT EXISTS outbox_attempt (
    event_id         BINARY(16) NOT NULL,
    number           INTEGER NOT NULL,
    destination      VARCHAR(255) NOT NULL,
    attempted_at     DATETIME(6) NOT NULL DEFAULT (utc_timestamp(6)),
    took_ms          BIGINT NOT NULL,
    status_code      INTEGER,
    error            TEXT NOT NULL,
    answer           TEXT,
    delivered        BOOLEAN NOT NULL DEFAULT false,
    PRIMARY KEY (event_id, number)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE {collation};

-- Relays that live, and what they have in flight.
CREATE TABLE IF NOT EXISTS outbox_relay (
    id               BINARY(16) NOT NULL PRIMARY KEY,
    host             VARCHAR(255) NOT NULL,
    started_at       DATETIME(6) NOT NULL DEFAULT (utc_timestamp(6)),
    heartbeat_at     DATETIME(6) NOT NULL DEFAULT (utc_timestamp(6)),
    in_flight        BIGINT NOT NULL DEFAULT 0,
    idle             BOOLEAN NOT NULL DEFAULT false,
    configuration    VARCHAR(64)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE {collation};

-- How each relay finds its destinations, for people.
CREATE TABLE IF NOT EXISTS outbox_lane (
    relay_id         BINARY(16) NOT NULL,
    destination      VARCHAR(255) NOT NULL,
    paused           BOOLEAN NOT NULL,
    down             BOOLEAN NOT NULL,
    limited          BOOLEAN NOT NULL DEFAULT false,
    down_since       DATETIME(6),
    probe_at         DATETIME(6),
    recovered_at     DATETIME(6),
    queued           BIGINT NOT NULL,
    sending          BIGINT NOT NULL,
    last_error       TEXT,
    last_error_at    DATETIME(6),
    PRIMARY KEY (relay_id, destination)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE {collation};

-- What destinations did, minute by minute, as each relay tells it; kept for a day. The latency, from commit to confirmation, and
-- the response time of the receiver are histograms: see docs/design/admin.md.
CREATE TABLE IF NOT EXISTS outbox_figure (
    minute           DATETIME(6) NOT NULL,
    relay_id         BINARY(16) NOT NULL,
    destination      VARCHAR(255) NOT NULL,
    delivered        BIGINT NOT NULL,
    failed           BIGINT NOT NULL,
    given_up         BIGINT NOT NULL,
    latency          LONGTEXT NOT NULL,
    response         LONGTEXT NOT NULL DEFAULT ('[]'),
    PRIMARY KEY (minute, relay_id, destination)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE {collation};

-- Destinations that people have paused: nothing is sent there, and their events wait.
CREATE TABLE IF NOT EXISTS outbox_paused (
    destination      VARCHAR(255) NOT NULL PRIMARY KEY,
    paused_at        DATETIME(6) NOT NULL DEFAULT (utc_timestamp(6)),
    paused_by        VARCHAR(255) NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE {collation};

-- What people did, through the admin pages, the API or a terminal.
CREATE TABLE IF NOT EXISTS outbox_audit (
    id               BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    done_at          DATETIME(6) NOT NULL DEFAULT (utc_timestamp(6)),
    who              VARCHAR(255) NOT NULL,
    what             VARCHAR(100) NOT NULL,
    target           TEXT NOT NULL,
    events           BIGINT
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE {collation};
