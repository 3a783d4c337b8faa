-- The admin's jobs and sessions, so that they survive a restart and several processes share them.
-- Least program: 0.1.0
-- Names and meaning are those on PostgreSQL. Older programs do not know these tables, and work on beside them.

-- Work on many events. A process that works on a job holds a lease on it; when the lease has run out, another one goes on
-- where the last batch ended.
CREATE TABLE IF NOT EXISTS outbox_job (
    id               BINARY(16) NOT NULL PRIMARY KEY,
    action           VARCHAR(20) NOT NULL,
    -- Of "fail": stands in the events' errors.
    reason           TEXT NOT NULL DEFAULT (''),
    -- Which events: the filter and the group of dead letters.
    scope            LONGTEXT NOT NULL,
    -- The same for people.
    target           TEXT NOT NULL,
    who              VARCHAR(255) NOT NULL,
    -- Events per second at most.
    rate             DOUBLE,
    -- How many events there were when it started, and whether there may be more.
    expected         BIGINT NOT NULL,
    expected_more    BOOLEAN NOT NULL,
    -- Its line in outbox_audit.
    audit_id         BIGINT NOT NULL,
    state            VARCHAR(20) NOT NULL DEFAULT 'running',
    -- The cursor behind which it goes on. Written in the transaction of the batch that led there.
    reached          TEXT,
    done             BIGINT NOT NULL DEFAULT 0,
    changed          BIGINT NOT NULL DEFAULT 0,
    error            TEXT NOT NULL DEFAULT (''),
    started_at       DATETIME(6) NOT NULL DEFAULT (utc_timestamp(6)),
    ended_at         DATETIME(6),
    -- The lease: the process's token, which each batch must present, and when it ends.
    claimed_by       BINARY(16),
    lease_until      DATETIME(6),
    CONSTRAINT outbox_job_action CHECK (action IN ('retry', 'replay', 'fail')),
    CONSTRAINT outbox_job_scope CHECK (json_valid(scope)),
    CONSTRAINT outbox_job_state CHECK (state IN ('running', 'done', 'cancelled', 'failed')),
    CONSTRAINT outbox_job_ended CHECK ((state = 'running') = (ended_at IS NULL)),
    INDEX outbox_job_running (state, started_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE {collation};

-- People who have logged in to the admin. Only a hash of a session's token is here; the token is in the browser's cookie.
CREATE TABLE IF NOT EXISTS outbox_session (
    token_hash       VARCHAR(255) NOT NULL PRIMARY KEY,
    name             VARCHAR(255) NOT NULL,
    began_at         DATETIME(6) NOT NULL DEFAULT (utc_timestamp(6)),
    seen_at          DATETIME(6) NOT NULL DEFAULT (utc_timestamp(6))
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE {collation};
