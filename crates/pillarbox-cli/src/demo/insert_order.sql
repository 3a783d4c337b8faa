-- A customer places an order, on SQLite, MariaDB and MySQL.
INSERT INTO pillarbox_demo_orders (number, total) VALUES (?, ?)
