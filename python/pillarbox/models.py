"""The outbox's table as a model. The table itself is the core's: see migrations/0001_initial.py."""

from __future__ import annotations

import json

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from pillarbox import opaque
from pillarbox.fields import EventIdField, MomentField, SeqField
from pillarbox.ids import uuid7

#: The aggregate type of recorded Celery tasks. Only the producer of ``pillarbox.celery`` writes it.
CELERY = "celery"


class OutboxEvent(models.Model):
    """An event on its way: pending until it is delivered, or failed when its attempts are used up.

    `emit_event` writes them. What a column means is said in the core's migration; a leased row is being sent.
    """

    class Status(models.TextChoices):
        PENDING = "pending", _("Pending")
        DELIVERED = "delivered", _("Delivered")
        FAILED = "failed", _("Failed")

    id = EventIdField(primary_key=True, default=uuid7, editable=False)
    seq = SeqField()
    aggregate_type = models.CharField(max_length=100)
    aggregate_id = models.CharField(max_length=100)
    event_type = models.CharField(max_length=255)
    payload = models.JSONField(default=dict, encoder=DjangoJSONEncoder)
    headers = models.JSONField(null=True, blank=True, encoder=DjangoJSONEncoder)
    status = models.CharField(max_length=20, choices=Status.choices, default=Status.PENDING)
    idempotency_key = models.CharField(max_length=255)
    attempts = models.PositiveIntegerField(default=0)
    max_attempts = models.PositiveIntegerField(null=True, blank=True, help_text=_("0: never given up"))
    claims = models.PositiveSmallIntegerField(default=0, help_text=_("leases that ran out"))
    next_attempt_at = MomentField(null=True, blank=True, default=timezone.now)
    claimed_by = EventIdField(null=True, blank=True, editable=False)
    parked_on = models.CharField(max_length=255, null=True, blank=True, help_text=_("the destination it waits for"))
    delivered_at = MomentField(null=True, blank=True)
    error_message = models.TextField(blank=True, default="")
    created_at = MomentField(default=timezone.now, editable=False)
    updated_at = MomentField(auto_now=True)

    class Meta:
        db_table = "outbox_event"
        verbose_name = _("outbox event")
        verbose_name_plural = _("outbox events")
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(fields=["event_type", "idempotency_key"], name="outbox_event_key"),
        ]

    def __str__(self) -> str:
        return f"{self.event_type} ({self.get_status_display()})"

    @property
    def is_opaque(self) -> bool:
        """Whether the payload is bytes of another content type than JSON. `payload` is then their base64."""
        return opaque.is_opaque(self.headers)

    @property
    def content_type(self) -> str:
        """The type of what receivers get: `application/json`, unless the payload is opaque."""
        return str(self.headers[opaque.HEADER]) if self.is_opaque else opaque.JSON

    @property
    def payload_bytes(self) -> bytes:
        """The bytes of an opaque payload; of another one its JSON. Raises ValueError if the row holds no base64."""
        if self.is_opaque:
            return opaque.decode(self.payload)
        return json.dumps(self.payload, cls=DjangoJSONEncoder, ensure_ascii=False).encode()

    def save(self, *args, **kwargs) -> None:
        """A terminal event has no next attempt: the table insists on it."""
        if self.status != self.Status.PENDING and self._state.adding:
            self.next_attempt_at = None
        super().save(*args, **kwargs)


class DeadLetter(OutboxEvent):
    """The failed events, for the admin: what has used up its attempts, and waits for somebody to retry it."""

    class Meta:
        proxy = True
        verbose_name = _("dead letter")
        verbose_name_plural = _("dead letters")
