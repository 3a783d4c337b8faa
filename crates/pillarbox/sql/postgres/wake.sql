-- Wake: notifies idle relays, at the commit, that events are due.
SELECT pg_notify('outbox_wake', '')
