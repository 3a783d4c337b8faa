"""The admin: look at events, and try failed ones again. Nothing is written by hand."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from django.contrib import admin, messages
from django.contrib.auth import get_permission_codename
from django.core.serializers.json import DjangoJSONEncoder
from django.db import router
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import truncatechars
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from pillarbox import mask, opaque
from pillarbox.fields import read_moment
from pillarbox.mask import MASKED, Shown
from pillarbox.models import DeadLetter, OutboxEvent
from pillarbox.store import Store
from pillarbox.summary import summary

# From so many rows on the total is an estimate.
_COUNT_UP_TO = 100_000
_CHUNK = 1000


class _ReadOnlyAdmin(admin.ModelAdmin):
    """Events are looked at; whoever may change them may have them retried, and nobody edits them."""

    date_hierarchy = "created_at"
    # By the primary key, which follows time and has an index.
    ordering = ("-id",)
    show_full_result_count = False
    list_per_page = 50
    readonly_fields = (
        "id",
        "seq",
        "event_type",
        "aggregate_type",
        "aggregate_id",
        "idempotency_key",
        "status",
        "attempts",
        "max_attempts",
        "claims",
        "next_attempt_at",
        "claimed_by",
        "parked_on",
        "delivered_at",
        "created_at",
        "updated_at",
        "shown_error",
        "shown_payload",
        "shown_headers",
        "failed_attempts",
        "delivered_attempts",
        "destinations",
    )
    fields = readonly_fields

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_retry_permission(self, request: HttpRequest) -> bool:
        codename = get_permission_codename("change", self.opts)
        return request.user.has_perm(f"{self.opts.app_label}.{codename}")

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(request, {"outbox": summary(count_up_to=_COUNT_UP_TO), **(extra_context or {})})

    @admin.display(description=_("payload"))
    def shown_payload(self, event: OutboxEvent) -> str:
        payload = Shown(event).payload
        if event.is_opaque and payload != MASKED:
            return format_html("<pre>{}</pre>", opaque.shown(payload, event.content_type))
        return _shown(payload)

    @admin.display(description=_("headers"))
    def shown_headers(self, event: OutboxEvent) -> str:
        return "-" if event.headers is None else _shown(Shown(event).headers(event.headers))

    @admin.display(description=_("error message"))
    def shown_error(self, event: OutboxEvent) -> str:
        return Shown(event).text(event.error_message) or "-"

    @admin.display(description=_("failed attempts"))
    def failed_attempts(self, event: OutboxEvent) -> str:
        store, shown = _store(), Shown(event)
        rows = store.database.run("get_attempts", store.database.id(event.pk))
        lines = (
            (number, read_moment(at, store.connection), to, shown.text(error))
            for number, to, at, _ms, _code, error, _answer, delivered in rows
            if not delivered
        )
        return format_html_join("", "{}. {} {}: {}<br>", lines) or "-"

    @admin.display(description=_("delivered attempts"))
    def delivered_attempts(self, event: OutboxEvent) -> str:
        store = _store()
        rows = store.database.run("get_attempts", store.database.id(event.pk))
        lines = (
            (number, read_moment(at, store.connection), to, f"{code}, {ms} ms" if code else f"{ms} ms")
            for number, to, at, ms, code, _error, _answer, delivered in rows
            if delivered
        )
        return format_html_join("", "{}. {} {}: {}<br>", lines) or "-"

    @admin.display(description=_("destinations"))
    def destinations(self, event: OutboxEvent) -> str:
        database, shown = _store().database, Shown(event)
        rows = database.run("get_deliveries", database.id(event.pk))
        lines = ((to, status, attempts, shown.text(error)) for to, status, attempts, _due, _at, error in rows)
        return format_html_join("", "{}: {} ({}) {}<br>", lines) or "-"

    def _retry(self, request: HttpRequest, queryset: QuerySet[OutboxEvent], note: str) -> None:
        """Makes events due now; those that are being sent, and those that arrived, stay as they are."""
        ids = list(queryset.order_by().values_list("pk", flat=True))
        answers: Counter[str] = Counter()
        for start in range(0, len(ids), _CHUNK):
            chunk = ids[start : start + _CHUNK]
            answer_of = _store(write=True).retry(chunk)
            answers.update(answer_of.values())
            for event in self.model._base_manager.filter(pk__in=chunk):
                if answer_of.get(event.pk) == "due":
                    self.log_change(request, event, note)
        if due := answers["due"]:
            text = ngettext("%d event reset for retry.", "%d events reset for retry.", due) % due
            self.message_user(request, text, messages.SUCCESS)
        if sending := answers["being_sent"]:
            text = ngettext("%d event is being sent: skipped.", "%d events are being sent: skipped.", sending) % sending
            self.message_user(request, text, messages.WARNING)
        if left := len(ids) - due - sending:
            text = ngettext("%d event needs no retry: skipped.", "%d events need no retry: skipped.", left) % left
            self.message_user(request, text, messages.WARNING)


@admin.register(OutboxEvent)
class OutboxEventAdmin(_ReadOnlyAdmin):
    """All events."""

    list_display = (
        "event_type",
        "aggregate_type",
        "aggregate_id",
        "status",
        "attempts",
        "next_attempt_at",
        "created_at",
    )
    list_filter = ("status", "event_type", "aggregate_type", "created_at")
    search_fields = ("event_type", "aggregate_type", "aggregate_id", "idempotency_key", "id")
    actions = ("retry_failed_events", "reset_retries")

    @admin.action(description=_("Retry selected failed events"), permissions=["retry"])
    def retry_failed_events(self, request: HttpRequest, queryset: QuerySet[OutboxEvent]) -> None:
        selected = queryset.count()
        failed = queryset.filter(status=OutboxEvent.Status.FAILED)
        if left := selected - failed.count():
            text = ngettext("%d event has not failed: skipped.", "%d events have not failed: skipped.", left) % left
            self.message_user(request, text, messages.WARNING)
        self._retry(request, failed, "Retried by an admin action")

    @admin.action(description=_("Reset retries of selected events"), permissions=["retry"])
    def reset_retries(self, request: HttpRequest, queryset: QuerySet[OutboxEvent]) -> None:
        self._retry(request, queryset, "Retries reset by an admin action")


@admin.register(DeadLetter)
class DeadLetterAdmin(_ReadOnlyAdmin):
    """The failed events only."""

    list_display = ("event_type", "aggregate_type", "aggregate_id", "attempts", "error", "created_at", "updated_at")
    list_filter = ("event_type", "aggregate_type", "updated_at")
    search_fields = ("event_type", "aggregate_type", "aggregate_id", "idempotency_key", "error_message", "id")
    actions = ("retry_selected",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[DeadLetter]:
        return super().get_queryset(request).filter(status=OutboxEvent.Status.FAILED)

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        """Without errors where something is masked: a stored error may quote it, and a search would confirm a guess."""
        fields = super().get_search_fields(request)
        return tuple(field for field in fields if field != "error_message" or not mask.is_wanted())

    @admin.display(description=_("error"))
    def error(self, event: OutboxEvent) -> str:
        return truncatechars(Shown(event).text(event.error_message), 80)

    @admin.action(description=_("Put selected dead letters back into the queue"), permissions=["retry"])
    def retry_selected(self, request: HttpRequest, queryset: QuerySet[OutboxEvent]) -> None:
        self._retry(request, queryset, "Put back into the queue by an admin action")


def _store(*, write: bool = False) -> Store:
    return Store(router.db_for_write(OutboxEvent) if write else router.db_for_read(OutboxEvent))


def _shown(value: Any) -> str:
    text = json.dumps(value, indent=2, ensure_ascii=False, cls=DjangoJSONEncoder)
    return format_html("<pre>{}</pre>", text)
