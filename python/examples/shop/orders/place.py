"""Placing an order: the order, an event about it and a task for it are one transaction."""

from decimal import Decimal

from django.db import transaction

from orders.models import Order
from orders.tasks import confirm
from pillarbox import emit_event


class Refused(Exception):
    """The payment was refused."""


def place_order(customer: str, total: Decimal) -> Order:
    with transaction.atomic():
        order = Order.objects.create(customer=customer, total=total)
        emit_event("Order", order.pk, "order.placed", {"customer": customer, "total": total})
        confirm.delay(order.pk)
        # Everything above is in the transaction; here it fails, and none of it ever was.
        if total > 1000:
            raise Refused(f"the bank refuses {total} for {customer}")
    return order
