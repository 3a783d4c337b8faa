"""What the workers do."""

from celery import shared_task
from django.db import transaction

from orders.models import Order


@shared_task(name="orders.confirm")
def confirm(order_id):
    """In a worker, too, a task that is sent in a transaction is sent if that commits."""
    with transaction.atomic():
        # The write comes first: SQLite waits for other writers only at the beginning of a transaction.
        Order.objects.filter(pk=order_id).update(status="confirmed")
        order = Order.objects.get(pk=order_id)
        pack.delay(order.pk)
    print(f"worker: {order} is confirmed", flush=True)


@shared_task(name="orders.pack")
def pack(order_id):
    """From another queue: CELERY_TASK_ROUTES says so."""
    Order.objects.filter(pk=order_id).update(status="packed")
    order = Order.objects.get(pk=order_id)
    print(f"worker: {order} is packed", flush=True)


@shared_task(name="order.placed", bind=True)
def on_order_placed(self, event):
    """An event of the outbox. Its id comes with it, in case that it comes twice."""
    print(f"worker: heard that {event['customer']} has ordered for {event['total']}", flush=True)
