-- Wake: relays that are idle hear that something is due, when this is committed.
SELECT pg_notify('outbox_wake', '')
