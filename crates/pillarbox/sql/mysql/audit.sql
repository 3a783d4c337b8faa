-- Audit: the actions of people, the newest first. ?1 before this id, ?2 limit.
SELECT id, done_at, who, what, target, events FROM outbox_audit
WHERE ?1 IS NULL OR id < ?1
ORDER BY id DESC LIMIT ?2
