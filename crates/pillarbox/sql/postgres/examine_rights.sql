-- Examine: the rights that a relay needs and this role does not have. $1 the schema.
SELECT format('%s on %s', privilege, name)
FROM unnest(ARRAY['outbox_event', 'outbox_delivery', 'outbox_attempt', 'outbox_relay', 'outbox_lane', 'outbox_figure',
                  'outbox_paused', 'outbox_job', 'outbox_session']) AS name,
     unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS privilege
WHERE NOT has_table_privilege(quote_ident($1) || '.' || name, privilege)
UNION ALL
SELECT format('%s on %s', privilege, name)
FROM unnest(ARRAY['outbox_log', 'outbox_log_key']) AS name, unnest(ARRAY['SELECT', 'UPDATE']) AS privilege
WHERE NOT has_table_privilege(quote_ident($1) || '.' || name, privilege)
