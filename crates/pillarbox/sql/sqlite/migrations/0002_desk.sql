-- The admin's jobs and sessions, so that they survive a restart and several processes share them.
-- Least program: 0.1.0
-- Names and meaning are those on PostgreSQL. Older programs do not know these tables, and work on beside them.

-- Work on many events. A process that works on a job holds a lease on it; when the lease has run out, another one goes on
-- where the last batch ended.
CREATE TABLE outbox_job (
    id               TEXT NOT NULL PRIMARY KEY,
    action           TEXT NOT NULL CHECK (action IN ('retry', 'replay', 'fail')),
    -- Of "fail": stands in the events' errors.
    reason           TEXT NOT NULL DEFAULT '',
    -- Which events: the filter and the group of dead letters.
    scope            TEXT NOT NULL CHECK (json_valid(scope)),
    -- The same for people.
    target           TEXT NOT NULL,
    who              TEXT NOT NULL,
    -- Events per second at most.
    rate             REAL,
    -- How many events there were when it started, and whether there may be more.
    expected         INTEGER NOT NULL,
    expected_more    INTEGER NOT NULL,
    -- Its line in outbox_audit.
    audit_id         INTEGER NOT NULL,
    state            TEXT NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'cancelled', 'failed')),
    -- The cursor behind which it goes on. Written in the transaction of the batch that led there.
    reached          TEXT,
    done             INTEGER NOT NULL DEFAULT 0,
    changed          INTEGER NOT NULL DEFAULT 0,
    error            TEXT NOT NULL DEFAULT '',
    started_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    ended_at         TEXT,
    -- The lease: the process's token, which each batch must present, and when it ends.
    claimed_by       TEXT,
    lease_until      TEXT,
    CONSTRAINT outbox_job_ended CHECK ((state = 'running') = (ended_at IS NULL))
) STRICT;

CREATE INDEX outbox_job_running ON outbox_job (started_at) WHERE state = 'running';

-- People who have logged in to the admin. Only a hash of a session's token is here; the token is in the browser's cookie.
CREATE TABLE outbox_session (
    token_hash       TEXT NOT NULL PRIMARY KEY,
    name             TEXT NOT NULL,
    began_at         TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    seen_at          TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
