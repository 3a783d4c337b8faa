-- Pause: nothing is sent to $1 any more, because $2 said so. One that is paused already stays as it is.
WITH paused AS (
    INSERT INTO {schema}.outbox_paused (destination, paused_by) VALUES ($1, $2)
    ON CONFLICT (destination) DO NOTHING
    RETURNING destination
)
INSERT INTO {schema}.outbox_audit (who, what, target) SELECT $2, 'pause', destination FROM paused
