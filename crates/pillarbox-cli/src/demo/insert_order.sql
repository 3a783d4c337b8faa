-- A customer places an order.
INSERT INTO orders (number, total) VALUES (?1, ?2)
