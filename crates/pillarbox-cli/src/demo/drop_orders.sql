-- Removes the shop's table, also one of a demo that was cut off.
DROP TABLE IF EXISTS pillarbox_demo_orders
