-- The admin's jobs and sessions, so that they survive a restart and several replicas share them.
-- Least program: 0.1.0
-- Runs with the outbox's schema as search_path. Older programs do not know these tables, and work on beside them.

-- Work on many events. A process that works on a job holds a lease on it; when the lease has run out, another one goes on
-- where the last batch ended.
CREATE TABLE outbox_job (
    id               uuid PRIMARY KEY,
    action           varchar(20) NOT NULL,
    -- Of "fail": stands in the events' errors.
    reason           text NOT NULL DEFAULT '',
    -- Which events: the filter and the group of dead letters.
    scope            jsonb NOT NULL,
    -- The same for people.
    target           text NOT NULL,
    who              varchar(255) NOT NULL,
    -- Events per second at most.
    rate             double precision,
    -- How many events there were when it started, and whether there may be more.
    expected         bigint NOT NULL,
    expected_more    boolean NOT NULL,
    -- Its line in outbox_audit.
    audit_id         bigint NOT NULL,
    state            varchar(20) NOT NULL DEFAULT 'running',
    -- The cursor behind which it goes on. Written in the transaction of the batch that led there.
    reached          text,
    done             bigint NOT NULL DEFAULT 0,
    changed          bigint NOT NULL DEFAULT 0,
    error            text NOT NULL DEFAULT '',
    started_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at         timestamptz,
    -- The lease: the process's token, which each batch must present, and when it ends.
    claimed_by       uuid,
    lease_until      timestamptz,
    CONSTRAINT outbox_job_action CHECK (action IN ('retry', 'replay', 'fail')),
    CONSTRAINT outbox_job_state CHECK (state IN ('running', 'done', 'cancelled', 'failed')),
    CONSTRAINT outbox_job_ended CHECK ((state = 'running') = (ended_at IS NULL))
);

CREATE INDEX outbox_job_running ON outbox_job (started_at) WHERE state = 'running';

-- People who have logged in to the admin. Only a hash of a session's token is here; the token is in the browser's cookie.
CREATE TABLE outbox_session (
    token_hash       varchar(64) PRIMARY KEY,
    name             varchar(255) NOT NULL,
    began_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at          timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Roles that may relay may do with these tables what they may do with outbox_paused.
DO $$
DECLARE
    granted record;
BEGIN
    FOR granted IN
        SELECT DISTINCT CASE WHEN acl.grantee = 0 THEN 'PUBLIC' ELSE acl.grantee::regrole::text END AS grantee,
               acl.privilege_type AS privilege
        FROM pg_class, aclexplode(relacl) AS acl
        WHERE pg_class.oid = 'outbox_paused'::regclass AND acl.grantee <> relowner
          AND acl.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
    LOOP
        EXECUTE format('GRANT %s ON outbox_job, outbox_session TO %s', granted.privilege, granted.grantee);
    END LOOP;
END
$$;
