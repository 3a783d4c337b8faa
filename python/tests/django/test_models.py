"""The model: fields that keep the core's forms, and still do what Django's do."""

from __future__ import annotations

import datetime
import uuid

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connections, transaction
from django.db.models import Max, Min
from django.db.models.functions import ExtractHour, TruncMonth
from django.utils import timezone

import pillarbox
from pillarbox import databases
from pillarbox.databases.sqlite import Sqlite
from pillarbox.fields import Clock
from pillarbox.ids import uuid7
from pillarbox.models import OutboxEvent

UTC = datetime.timezone.utc


@pytest.fixture
def events(alias):
    return OutboxEvent.objects.using(alias)


@pytest.fixture
def make(events):
    def make(key: str = "k", **fields) -> OutboxEvent:
        fields = {"aggregate_type": "Order", "aggregate_id": "1", "event_type": "order.placed", **fields}
        return events.create(idempotency_key=key, **fields)

    return make


def raw(alias: str, columns: str) -> tuple:
    with connections[alias].cursor() as cursor:
        cursor.execute(f"SELECT {columns} FROM outbox_event")
        return cursor.fetchone()


def test_defaults(make, events):
    event = make()
    assert event.id.version == 7
    assert event.seq > 0
    row = events.get()
    assert (row.status, row.attempts, row.payload, row.claims, row.error_message) == ("pending", 0, {}, 0, "")
    assert (row.max_attempts, row.headers, row.parked_on, row.claimed_by, row.delivered_at) == (None,) * 5
    assert str(row) == "order.placed (Pending)"
    assert set(OutboxEvent.Status.values) == {"pending", "delivered", "failed"}
    assert row.seq == event.seq


def test_the_database_has_the_cores_forms(make, alias):
    token, moment = uuid.uuid4(), datetime.datetime(2026, 2, 25, 12, 34, 56, 789999, tzinfo=UTC)
    event = make(claimed_by=token, created_at=moment)
    forms = {
        "default": (event.id, token, moment),
        "lite": (str(event.id), str(token), "2026-02-25T12:34:56.789Z"),
        "maria": (event.id.bytes, token.bytes, moment.replace(tzinfo=None)),
    }
    assert raw(alias, "id, claimed_by, created_at") == forms[alias]


def test_moments_are_compared_cut_and_ordered(make, events):
    # In Berlin the first is still in January; the last millisecond of a year belongs to it.
    moments = [
        datetime.datetime(2026, 1, 31, 22, 59, 59, 999000, tzinfo=UTC),
        datetime.datetime(2026, 1, 31, 23, 0, 0, 1000, tzinfo=UTC),
        datetime.datetime(2026, 12, 31, 22, 59, 59, 999000, tzinfo=UTC),
        datetime.datetime(2026, 12, 31, 23, 0, tzinfo=UTC),
    ]
    for number, moment in enumerate(moments):
        make(str(number), created_at=moment)

    def keys(query) -> list[str]:
        return list(query.order_by("created_at").values_list("idempotency_key", flat=True))

    assert keys(events.all()) == ["0", "1", "2", "3"]
    assert keys(events.filter(created_at=moments[1])) == ["1"]
    assert keys(events.filter(created_at__lt=moments[1])) == ["0"]
    assert keys(events.filter(created_at__range=(moments[1], moments[2]))) == ["1", "2"]
    assert keys(events.filter(created_at__in=[moments[0], moments[3]])) == ["0", "3"]
    assert keys(events.filter(created_at__year=2026)) == ["0", "1", "2"]
    assert keys(events.filter(created_at__year__gt=2026)) == ["3"]
    assert keys(events.filter(created_at__year__lte=2026)) == ["0", "1", "2"]
    assert keys(events.filter(created_at__month=2)) == ["1"]
    assert keys(events.filter(created_at__date=datetime.date(2026, 1, 31))) == ["0"]
    assert keys(events.filter(created_at__time__gte=datetime.time(23, 59))) == ["0", "2"]
    assert len(events.datetimes("created_at", "month")) == 4
    months = events.annotate(month=TruncMonth("created_at")).values_list("month", flat=True).distinct()
    assert {month.month for month in months} == {1, 2, 12}
    assert events.annotate(hour=ExtractHour("created_at")).filter(hour=23).count() == 2
    ends = events.aggregate(first=Min("created_at"), last=Max("created_at"))
    assert (ends["first"], ends["last"]) == (moments[0], moments[3])
    assert events.filter(created_at__lt=Clock()).count() + events.filter(created_at__gte=Clock()).count() == 4


def test_ids_are_found_whole_and_by_their_parts(make, events):
    event = make()
    text = str(event.id)
    assert events.get(pk=event.id) == events.get(pk=text) == events.get(pk=event.id.hex) == event
    assert events.filter(pk__in=[event.id, uuid.uuid4()]).count() == 1
    for lookup in ("icontains", "contains"):
        assert events.filter(**{f"id__{lookup}": text[4:20]}).count() == 1
    assert events.filter(id__startswith=text[:13]).count() == 1
    assert events.filter(id__iexact=text.upper()).count() == 1


def test_json_is_looked_into(make, events):
    make(payload={"total": {"amount": 7}}, headers={"tenant": "acme"})
    assert events.filter(payload__total__amount=7, headers__tenant="acme").count() == 1
    assert events.filter(payload__total__amount=8).count() == 0


def test_an_update_keeps_the_forms_and_the_order(make, events, alias):
    event = make()
    seq = event.seq
    event.next_attempt_at = timezone.now() + datetime.timedelta(hours=1)
    event.save()
    events.filter(pk=event.pk).update(updated_at=Clock())
    row = events.get()
    assert row.seq == seq
    assert abs(row.next_attempt_at - event.next_attempt_at) < datetime.timedelta(milliseconds=1)


def test_many_at_once(events):
    fields = {"aggregate_type": "Order", "aggregate_id": "1", "event_type": "t"}
    made = events.bulk_create(OutboxEvent(idempotency_key=key, **fields) for key in "abc")
    assert [event.seq for event in events.order_by("seq")] == [event.seq for event in made]


def test_the_table_refuses_duplicates_and_impossible_states(make, events, alias):
    make()
    with pytest.raises(IntegrityError), transaction.atomic(using=alias):
        make()
    make(event_type="order.paid")
    with pytest.raises(IntegrityError), transaction.atomic(using=alias):
        events.update(status="delivered")
    make("terminal", status="failed")


def test_nothing_is_left_to_migrate(db):
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)


def test_ids_follow_time():
    ids = [uuid7() for _ in range(3)]
    assert all(id.version == 7 and id.variant == uuid.RFC_4122 for id in ids)
    assert len(set(ids)) == 3


def test_naive_moments_are_the_projects(settings):
    settings.USE_TZ = False
    assert Sqlite.moment(datetime.datetime(2026, 2, 25, 13, 0)) == "2026-02-25T12:00:00.000Z"


def test_without_time_zones_moments_are_naive_and_the_projects(make, events, settings):
    settings.USE_TZ = False
    moment = datetime.datetime(2026, 12, 31, 23, 30)
    make(created_at=moment)
    for connection in connections.all():
        connection.__dict__.pop("timezone", None)
    assert events.filter(created_at__year=2026).count() == 1
    assert events.get(created_at=moment).created_at == moment


def test_rows_of_any_time_are_read(alias):
    odd = {
        "default": ["infinity", "-infinity", "290000-01-01 00:00:00+00", "0044-03-15 00:00:00+00 BC"],
        "lite": ["2999-99-99T99:99:99.999Z", "year-mo-daThh:mm:ss.milZ", "    -  -  T  :  :  .   Z"],
        "maria": ["0000-03-15 00:00:00", "9999-12-31 23:59:59.999999"],
    }[alias]
    for number, moment in enumerate(odd):
        event = pillarbox.emit_event("Order", number, "t", using=alias)
        key = databases.of(connections[alias]).id(event.pk)
        with connections[alias].cursor() as cursor:
            cursor.execute(
                "UPDATE outbox_event SET next_attempt_at = %s, created_at = %s, updated_at = %s WHERE id = %s",
                [moment, moment, moment, key],
            )
    rows = list(OutboxEvent.objects.using(alias).order_by("next_attempt_at"))
    assert len(rows) == len(odd)
    assert {row.created_at.year for row in rows} <= {1, 9999}
    assert OutboxEvent.objects.using(alias).order_by("created_at").distinct().count() == len(odd)
