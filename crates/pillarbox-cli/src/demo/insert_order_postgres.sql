-- A customer places an order, on PostgreSQL.
INSERT INTO pillarbox_demo_orders (number, total) VALUES ($1, $2)
