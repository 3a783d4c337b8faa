-- Resume: events go to $1 again, because $2 said so.
WITH resumed AS (
    DELETE FROM {schema}.outbox_paused WHERE destination = $1 RETURNING destination
)
INSERT INTO {schema}.outbox_audit (who, what, target) SELECT $2, 'resume', destination FROM resumed
