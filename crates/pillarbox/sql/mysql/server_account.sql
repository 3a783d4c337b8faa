-- Returns the account that the server has chosen for the session's user, and the session's database.
SELECT current_user() AS account, database() AS name
