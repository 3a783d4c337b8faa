-- The shop's own table: an application's business data, not Pillarbox's. Every database understands this statement.
CREATE TABLE pillarbox_demo_orders (number INTEGER PRIMARY KEY, total TEXT NOT NULL)
