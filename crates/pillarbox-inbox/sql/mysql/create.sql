-- Creates the inbox: one row per event that a consumer has handled. It is in the database that the handlers write to.
-- Names are compared byte by byte. `received_at` is in UTC.
CREATE TABLE IF NOT EXISTS inbox_event (
    consumer    varchar(100) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    id          varchar(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    received_at datetime(6) NOT NULL,
    PRIMARY KEY (consumer, id),
    KEY inbox_event_received_idx (received_at)
) ENGINE = InnoDB;
