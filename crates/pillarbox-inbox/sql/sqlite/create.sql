-- Creates the inbox: one row per event that a consumer has handled. It is in the database that the handlers write to.
CREATE TABLE IF NOT EXISTS inbox_event (
    consumer    TEXT NOT NULL CHECK (consumer <> ''),
    id          TEXT NOT NULL CHECK (id <> ''),
    received_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    PRIMARY KEY (consumer, id)
) WITHOUT ROWID;
-- For cleanup.
CREATE INDEX IF NOT EXISTS inbox_event_received_idx ON inbox_event (received_at);
