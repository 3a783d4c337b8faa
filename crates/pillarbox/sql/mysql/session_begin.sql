-- Session: begins one after a login. ?1 hash of the token, ?2 name.
INSERT INTO outbox_session (token_hash, name) VALUES (?1, ?2)
