"""`manage.py place_orders`: a few customers order."""

from decimal import Decimal

from django.core.management.base import BaseCommand
from orders.place import Refused, place_order

CUSTOMERS = [("Ada", "12.50"), ("Mallory", "9999.00"), ("Grace", "99.90"), ("Linus", "5.00")]


class Command(BaseCommand):
    help = "Places a few orders, one of which is refused"

    def handle(self, *args, **options):
        for customer, total in CUSTOMERS:
            try:
                order = place_order(customer, Decimal(total))
            except Refused as refusal:
                self.stdout.write(f"shop: {refusal}: no order, no event, no task")
            else:
                self.stdout.write(f"shop: {order} is placed")
