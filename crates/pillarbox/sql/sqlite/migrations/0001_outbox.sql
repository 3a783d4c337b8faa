-- The outbox. Names and meaning are those on PostgreSQL; a plain INSERT with the columns' defaults emits.
-- Least program: 0.1.0
-- Moments are text in UTC with milliseconds, 2026-02-25T12:34:56.789Z, so that their order is the order of time; CHECKs
-- refuse any other form. ids are UUID v7 as text. Works with SQLite 3.37 and later.

CREATE TABLE outbox_event (
    seq              INTEGER PRIMARY KEY AUTOINCREMENT,
    id               TEXT NOT NULL UNIQUE DEFAULT (
        -- 48 bits of milliseconds, then chance, with the version and the variant in their places.
        lower(printf('%08x-%04x-7%s-%s%s-%s',
            CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) >> 16,
            CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) & 65535,
            substr(hex(randomblob(2)), 2),
            substr('89ab', 1 + (random() & 3), 1), substr(hex(randomblob(2)), 2),
            hex(randomblob(6)))))
        -- As the relay writes it. In capitals or without dashes it could be read and not be found again: the event would be
        -- sent and never settled.
        CHECK (id GLOB replace('hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh', 'h', '[0-9a-f]')),
    aggregate_type   TEXT NOT NULL CHECK (length(aggregate_type) BETWEEN 1 AND 100),
    aggregate_id     TEXT NOT NULL CHECK (length(aggregate_id) BETWEEN 1 AND 100),
    event_type       TEXT NOT NULL CHECK (length(event_type) BETWEEN 1 AND 255),
    payload          TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(payload)),
    headers          TEXT CHECK (json_type(headers) = 'object'),
    status           TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'delivered', 'failed')),
    -- Empty only until the trigger below has put the default there, which a column's DEFAULT cannot.
    idempotency_key  TEXT NOT NULL DEFAULT '' CHECK (length(idempotency_key) <= 255),
    attempts         INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    max_attempts     INTEGER CHECK (max_attempts >= 0),
    claims           INTEGER NOT NULL DEFAULT 0,
    next_attempt_at  TEXT DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
                     CHECK (next_attempt_at GLOB '????-??-??T??:??:??.???Z'),
    claimed_by       TEXT,
    parked_on        TEXT CHECK (length(parked_on) BETWEEN 1 AND 255),
    delivered_at     TEXT CHECK (delivered_at GLOB '????-??-??T??:??:??.???Z'),
    error_message    TEXT NOT NULL DEFAULT '',
    created_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
                     CHECK (created_at GLOB '????-??-??T??:??:??.???Z'),
    updated_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    -- A pending event without a time would never be claimed, and a terminal one must not be.
    CONSTRAINT outbox_event_time CHECK ((status = 'pending') = (next_attempt_at IS NOT NULL)),
    CONSTRAINT outbox_event_key UNIQUE (event_type, idempotency_key)
) STRICT;

CREATE TRIGGER outbox_event_default_key AFTER INSERT ON outbox_event WHEN NEW.idempotency_key = ''
BEGIN
    -- INSERT OR IGNORE would make the UPDATE ignore a duplicate as well, and so let it be emitted.
    SELECT RAISE(ABORT, 'UNIQUE constraint failed: outbox_event.event_type, outbox_event.idempotency_key')
    FROM outbox_event
    WHERE event_type = NEW.event_type AND idempotency_key = NEW.aggregate_type || ':' || NEW.aggregate_id;
    UPDATE outbox_event SET idempotency_key = NEW.aggregate_type || ':' || NEW.aggregate_id WHERE seq = NEW.seq;
END;

CREATE INDEX outbox_event_due ON outbox_event (next_attempt_at, seq) WHERE status = 'pending' AND parked_on IS NULL;
CREATE INDEX outbox_event_parked ON outbox_event (parked_on, next_attempt_at, seq) WHERE parked_on IS NOT NULL;
CREATE INDEX outbox_event_failed ON outbox_event (updated_at) WHERE status = 'failed';
-- For order = "aggregate": the undelivered events of an aggregate, in order.
CREATE INDEX outbox_event_order ON outbox_event (aggregate_type, aggregate_id, seq) WHERE status <> 'delivered';
-- For cleanup, and for people who count.
CREATE INDEX outbox_event_delivered ON outbox_event (delivered_at) WHERE status = 'delivered';
-- Nearly always empty: events with four lost leases or more, which may kill their relays.
CREATE INDEX outbox_event_suspect ON outbox_event (next_attempt_at) WHERE status = 'pending' AND claims >= 4;

-- One row per destination of a fan-out that did not succeed at once.
CREATE TABLE outbox_delivery (
    event_id         TEXT NOT NULL,
    destination      TEXT NOT NULL,
    status           TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'delivered', 'failed')),
    attempts         INTEGER NOT NULL DEFAULT 0,
    next_attempt_at  TEXT,
    delivered_at     TEXT,
    error            TEXT NOT NULL DEFAULT '',
    -- It waits for its destination, whatever the event's other destinations do.
    parked           INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (event_id, destination)
) STRICT, WITHOUT ROWID;

CREATE INDEX outbox_delivery_parked ON outbox_delivery (destination, event_id) WHERE parked;

-- Failed attempts, for people to look at, the latest of each event. With relay.record_attempts = "all" also the successful ones.
CREATE TABLE outbox_attempt (
    event_id         TEXT NOT NULL,
    number           INTEGER NOT NULL,
    destination      TEXT NOT NULL,
    attempted_at     TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    took_ms          INTEGER NOT NULL,
    status_code      INTEGER,
    error            TEXT NOT NULL,
    answer           TEXT,
    delivered        INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (event_id, number)
) STRICT, WITHOUT ROWID;

-- Live relays, and their events in flight.
CREATE TABLE outbox_relay (
    id               TEXT NOT NULL PRIMARY KEY,
    host             TEXT NOT NULL,
    started_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    heartbeat_at     TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    in_flight        INTEGER NOT NULL DEFAULT 0,
    idle             INTEGER NOT NULL DEFAULT 0,
    configuration    TEXT
) STRICT;

-- The state of each destination as each relay sees it, for people.
CREATE TABLE outbox_lane (
    relay_id         TEXT NOT NULL,
    destination      TEXT NOT NULL,
    paused           INTEGER NOT NULL,
    down             INTEGER NOT NULL,
    limited          INTEGER NOT NULL DEFAULT 0,
    down_since       TEXT,
    probe_at         TEXT,
    recovered_at     TEXT,
    queued           INTEGER NOT NULL,
    sending          INTEGER NOT NULL,
    last_error       TEXT,
    last_error_at    TEXT,
    PRIMARY KEY (relay_id, destination)
) STRICT;

-- Deliveries and failures per minute, relay and destination; kept for a day. The latency, from commit to confirmation, and
-- the response time of the receiver are histograms: see docs/design/admin.md.
CREATE TABLE outbox_figure (
    minute           TEXT NOT NULL,
    relay_id         TEXT NOT NULL,
    destination      TEXT NOT NULL,
    delivered        INTEGER NOT NULL,
    failed           INTEGER NOT NULL,
    given_up         INTEGER NOT NULL,
    latency          TEXT NOT NULL,
    response         TEXT NOT NULL DEFAULT '[]',
    PRIMARY KEY (minute, relay_id, destination)
) STRICT;

-- Destinations that people have paused: nothing is sent there, and their events wait.
CREATE TABLE outbox_paused (
    destination      TEXT NOT NULL PRIMARY KEY,
    paused_at        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    paused_by        TEXT NOT NULL
) STRICT;

-- What people did, through the admin pages, the API or a terminal.
CREATE TABLE outbox_audit (
    id               INTEGER PRIMARY KEY,
    done_at          TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    who              TEXT NOT NULL,
    what             TEXT NOT NULL,
    target           TEXT NOT NULL,
    events           INTEGER
) STRICT;
