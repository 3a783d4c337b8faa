# billing/urls.py
import os

from billing.models import Invoice
from django.urls import path
from pillarbox.inbox.django import receiver


@receiver("billing", os.environ["BILLING_SECRETS"].split())
def events(event):
    if event.type == "order.placed":
        Invoice.objects.create(order_id=event.aggregate_id, total=event.json()["total"])


urlpatterns = [path("events", events)]
