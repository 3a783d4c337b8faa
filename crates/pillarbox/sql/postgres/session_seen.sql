-- Session: records its use. $1 hash of the token.
UPDATE {schema}.outbox_session SET seen_at = clock_timestamp() WHERE token_hash = $1
