-- Session: records its use. ?1 hash of the token.
UPDATE outbox_session SET seen_at = utc_timestamp(6) WHERE token_hash = ?1
