-- Returns the name of the database.
SELECT coalesce(database(), '') AS name
