-- Cleanup: one batch of terminal events, by their age since they became terminal, each half by its index.
-- ?1 seconds since delivered, ?2 seconds since failed, ?3 limit.
DELETE FROM outbox_event
WHERE seq IN (
    SELECT seq FROM (
        SELECT seq FROM outbox_event
        WHERE status = 'delivered' AND delivered_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('-%.3f seconds', ?1))
        ORDER BY delivered_at LIMIT ?3
    )
    UNION ALL
    SELECT seq FROM (
        SELECT seq FROM outbox_event
        WHERE status = 'failed' AND updated_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('-%.3f seconds', ?2))
        ORDER BY updated_at LIMIT ?3
    )
    LIMIT ?3
)
RETURNING id
