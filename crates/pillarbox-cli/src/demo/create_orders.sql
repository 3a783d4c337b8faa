-- The shop's own table: an application's business data, not Pillarbox's.
CREATE TABLE orders (number INTEGER PRIMARY KEY, total TEXT NOT NULL) STRICT
