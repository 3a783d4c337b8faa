-- What the shop has in the end.
SELECT count(*) FROM orders
