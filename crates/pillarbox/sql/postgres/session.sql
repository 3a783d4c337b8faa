-- What every new session of ours is told. The server finds out by itself that its client is gone, also in the middle of a
-- statement or a transaction, and frees its locks.
SELECT set_config('tcp_keepalives_idle', '10', false),
       set_config('tcp_keepalives_interval', '3', false),
       set_config('tcp_keepalives_count', '3', false),
       set_config('tcp_user_timeout', '15000', false),
       set_config('client_connection_check_interval', '5000', false)
