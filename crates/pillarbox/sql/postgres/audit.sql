-- What people did, the newest first. $1 before this id, $2 limit.
SELECT id, done_at, who::text, what::text, target, events FROM {schema}.outbox_audit
WHERE $1::bigint IS NULL OR id < $1
ORDER BY id DESC LIMIT $2
