-- Settle with on_delivered = "delete": deletes delivered events, with their deliveries and attempts. $1 ids, $2 tokens.
WITH delivered AS (
    DELETE FROM {schema}.outbox_event AS event
    USING unnest($1::uuid[], $2::uuid[]) AS verdict (id, token),
          (SELECT set_config('synchronous_commit', 'off', true)) AS a_lost_settle_is_a_duplicate
    WHERE event.id = verdict.id AND event.claimed_by IS NOT DISTINCT FROM verdict.token AND event.status = 'pending'
    RETURNING event.id
), deliveries AS (
    DELETE FROM {schema}.outbox_delivery USING delivered WHERE event_id = delivered.id
), attempts AS (
    DELETE FROM {schema}.outbox_attempt USING delivered WHERE event_id = delivered.id
)
SELECT id FROM delivered
