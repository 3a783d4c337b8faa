-- Session: ends one at a logout. ?1 hash of the token.
DELETE FROM outbox_session WHERE token_hash = ?1
