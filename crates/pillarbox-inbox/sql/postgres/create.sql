-- Creates the inbox: one row per event that a consumer has handled. It is in the database that the handlers write to.
CREATE TABLE IF NOT EXISTS inbox_event (
    consumer    text NOT NULL CHECK (consumer <> ''),
    id          text NOT NULL CHECK (id <> ''),
    received_at timestamptz NOT NULL DEFAULT now(),
    -- Two consumers on one database do not hide each other's events.
    PRIMARY KEY (consumer, id)
);
-- For cleanup.
CREATE INDEX IF NOT EXISTS inbox_event_received_idx ON inbox_event (received_at);
