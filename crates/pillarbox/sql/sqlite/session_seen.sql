-- Session: records its use. ?1 hash of the token.
UPDATE outbox_session SET seen_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now') WHERE token_hash = ?1
