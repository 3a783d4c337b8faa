"""Orders."""

from django.db import models


class Order(models.Model):
    """What somebody wants, and how far it is."""

    customer = models.CharField(max_length=100)
    total = models.DecimalField(max_digits=8, decimal_places=2)
    status = models.CharField(max_length=20, default="placed")

    def __str__(self) -> str:
        return f"order {self.pk} of {self.customer}"
