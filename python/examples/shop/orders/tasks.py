"""What the workers do."""

from celery import shared_task
from django.db import transaction

from orders.models import Order


@shared_task(name="orders.confirm")
def confirm(order_id):
    """In a worker, too, a task that is sent in a transaction is sent if that commits."""
    with transaction.atomic():
        order = Order.objects.get(pk=order_id)
        order.status = "confirmed"
        order.save()
        pack.delay(order.pk)
    print(f"worker: {order} is confirmed", flush=True)


@shared_task(name="orders.pack")
def pack(order_id):
    """From another queue: CELERY_TASK_ROUTES says so."""
    order = Order.objects.get(pk=order_id)
    Order.objects.filter(pk=order_id).update(status="packed")
    print(f"worker: {order} is packed", flush=True)


@shared_task(name="order.placed", bind=True)
def on_order_placed(self, event):
    """An event of the outbox. Its id comes with it, in case that it comes twice."""
    print(f"worker: heard that {event['customer']} has ordered for {event['total']}", flush=True)
