-- Audit: the actions of people, the newest first. $1 before this id, $2 limit.
SELECT id, done_at, who::text, what::text, target, events FROM {schema}.outbox_audit
WHERE id < coalesce($1, 9223372036854775807)
ORDER BY id DESC LIMIT $2
