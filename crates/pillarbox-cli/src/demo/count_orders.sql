-- What the shop has in the end.
SELECT count(*) FROM pillarbox_demo_orders
