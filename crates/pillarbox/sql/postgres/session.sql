-- The settings of every new connection. With them the server notices that its client is gone, even during a statement or a
-- transaction, and frees its locks.
SELECT set_config('tcp_keepalives_idle', '10', false),
       set_config('tcp_keepalives_interval', '3', false),
       set_config('tcp_keepalives_count', '3', false),
       set_config('tcp_user_timeout', '15000', false),
       set_config('client_connection_check_interval', '5000', false)
