"""Process: handlers of the project deliver, by the same leases as the relay."""

from __future__ import annotations

import datetime
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections, transaction
from django.utils import timezone

import pillarbox
from pillarbox import databases, handlers
from pillarbox.models import OutboxEvent
from pillarbox.process import delay, judge, process_pending_events
from pillarbox.store import Attempt, Store, Verdict

SEEN: list[OutboxEvent] = []


def remember(event: OutboxEvent) -> None:
    SEEN.append(event)


@pytest.fixture(autouse=True)
def _forget(monkeypatch):
    SEEN.clear()
    monkeypatch.setattr(handlers, "_registered", [])


@pytest.fixture
def outbox(alias):
    """Emits with defaults, and looks at what stands there."""

    class Outbox:
        def emit(self, event_type="order.placed", aggregate_type="Order", **fields) -> OutboxEvent:
            fields = {"payload": {"n": 1}, "repeatable": True, **fields}
            return pillarbox.emit_event(aggregate_type, "1", event_type, using=alias, **fields)

        def record(self, task_name: str) -> OutboxEvent:
            """A row as the producer for Celery writes it."""
            fields = {"aggregate_type": "celery", "aggregate_id": "t1", "payload": {"celery": 1}}
            return OutboxEvent.objects.using(alias).create(event_type=task_name, idempotency_key=task_name, **fields)

        def process(self, **arguments):
            return process_pending_events(using=alias, **arguments)

        def look(self, event: OutboxEvent) -> OutboxEvent:
            return OutboxEvent.objects.using(alias).get(pk=event.pk)

        def change(self, event: OutboxEvent, **fields) -> None:
            OutboxEvent.objects.using(alias).filter(pk=event.pk).update(**fields)

        def attempts(self, event: OutboxEvent):
            with connections[alias].cursor() as cursor:
                cursor.execute(
                    "SELECT number, destination, error FROM outbox_attempt WHERE event_id = %s ORDER BY number",
                    [databases.of(connections[alias]).id(event.pk)],
                )
                return list(cursor.fetchall())

    return Outbox()


def test_a_handler_delivers(outbox):
    handlers.handler("order.*")(remember)
    event = outbox.emit()
    assert outbox.process() == {"processed": 1, "remaining": 0}
    assert [seen.pk for seen in SEEN] == [event.pk]
    assert SEEN[0].payload == {"n": 1}
    row = outbox.look(event)
    assert (row.status, row.next_attempt_at, row.claimed_by, row.attempts) == ("delivered", None, None, 0)
    assert row.delivered_at is not None
    assert outbox.process() == {"processed": 0, "remaining": 0}


def test_only_events_with_a_handler_are_taken_and_never_recorded_tasks(outbox):
    handlers.handler("*.placed", "all.*")(remember)
    other = outbox.emit("order.paid")
    task = outbox.record("all.tasks")
    later = outbox.emit(deliver_at=timezone.now() + datetime.timedelta(hours=1))
    assert outbox.process() == {"processed": 0, "remaining": 0}
    assert {outbox.look(event).status for event in (other, task, later)} == {"pending"}
    assert outbox.look(other).claimed_by is None


def test_without_handlers_nothing_is_taken_unless_the_setting_says_so(outbox, settings):
    event, task = outbox.emit(), outbox.record("t")
    assert outbox.process() == {"processed": 0, "remaining": 0}
    settings.PILLARBOX_UNHANDLED = "deliver"
    assert outbox.process() == {"processed": 1, "remaining": 0}
    assert (outbox.look(event).status, outbox.look(task).status) == ("delivered", "pending")


def test_handlers_come_from_the_setting_too(outbox, settings):
    settings.PILLARBOX_HANDLERS = {"order.*": f"{__name__}.remember", "*.placed": [remember]}
    outbox.emit()
    assert outbox.process()["processed"] == 1
    assert len(SEEN) == 1


def test_the_batch_is_kept_to_and_what_remains_is_told(outbox):
    handlers.handler("*")(remember)
    for _ in range(5):
        outbox.emit()
    assert outbox.process(batch_size=2) == {"processed": 2, "remaining": 3}
    assert outbox.process() == {"processed": 3, "remaining": 0}
    assert [event.seq for event in SEEN] == sorted(event.seq for event in SEEN)


def test_a_failure_is_retried_with_backoff_until_its_attempts_are_used_up(outbox):
    @handlers.handler("order.*")
    def refuse(event):
        raise RuntimeError("the printer is on fire\0")

    event, neighbour = outbox.emit(max_attempts=2), outbox.emit("user.created")
    handlers.handler("user.*")(remember)
    assert outbox.process() == {"processed": 2, "remaining": 0}
    row = outbox.look(event)
    assert (row.status, row.attempts, row.claimed_by) == ("pending", 1, None)
    assert row.error_message == "RuntimeError: the printer is on fire\\0"
    wait = row.next_attempt_at - row.updated_at
    assert datetime.timedelta(seconds=59) < wait < datetime.timedelta(seconds=67)
    assert outbox.look(neighbour).status == "delivered"

    outbox.change(event, next_attempt_at=row.created_at)
    outbox.process()
    row = outbox.look(event)
    assert (row.status, row.attempts, row.next_attempt_at) == ("failed", 2, None)
    name = f"{__name__}.{refuse.__qualname__}"
    assert outbox.attempts(event) == [(n, name, row.error_message) for n in (1, 2)]


def test_the_wait_doubles_up_to_an_hour_with_ten_per_cent_of_jitter():
    assert [delay(n, 0.0) for n in range(1, 9)] == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert delay(1, 0.5) == 63
    failed = Attempt("here", 1, "no")
    assert judge(OutboxEvent(attempts=3), failed, 0.0) == Verdict("retry", 4, 480.0, "no")
    assert judge(OutboxEvent(attempts=4), failed, 0.0) == Verdict("fail", 5, 0.0, "no")
    assert judge(OutboxEvent(attempts=99, max_attempts=0), failed, 0.0).change == "retry"


def test_a_handlers_broken_statement_does_not_take_the_settle_with_it(outbox, alias):
    @handlers.handler("order.*")
    def break_it(event):
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT no_such_thing")

    event = outbox.emit()
    outbox.process()
    assert "no_such_thing" in outbox.look(event).error_message


def test_an_interrupt_gives_the_rest_back(outbox):
    @handlers.handler("order.*")
    def stop(event):
        raise KeyboardInterrupt

    events = [outbox.emit(), outbox.emit()]
    with pytest.raises(KeyboardInterrupt):
        outbox.process()
    for event in events:
        row = outbox.look(event)
        assert (row.status, row.attempts, row.claimed_by) == ("pending", 0, None)


def test_leased_rows_are_left_and_lapsed_ones_taken_with_their_loss_counted(outbox):
    handlers.handler("*")(remember)
    held, lapsed = outbox.emit(), outbox.emit()
    outbox.change(held, claimed_by=uuid.uuid4(), next_attempt_at=timezone.now() + datetime.timedelta(minutes=5))
    outbox.change(lapsed, claimed_by=uuid.uuid4())
    assert outbox.process() == {"processed": 1, "remaining": 0}
    assert [(event.pk, event.claims) for event in SEEN] == [(lapsed.pk, 1)]
    assert outbox.look(lapsed).claims == 0


def test_a_suspect_goes_alone_and_is_given_up_when_it_was_lost_too_often(outbox):
    handlers.handler("*")(remember)
    killer, innocent = outbox.emit(), outbox.emit()
    outbox.change(killer, claimed_by=uuid.uuid4(), claims=2)
    assert outbox.process() == {"processed": 1, "remaining": 1}
    assert [event.pk for event in SEEN] == [killer.pk]
    dead = outbox.emit()
    outbox.change(dead, claimed_by=uuid.uuid4(), claims=6)
    outbox.process()
    assert outbox.look(dead).status == "failed"
    assert outbox.look(dead).error_message.startswith("given up: 7 relays")
    assert outbox.look(innocent).status == "delivered"


def test_what_a_relay_found_no_route_for_is_taken(outbox):
    handlers.handler("*")(remember)
    unrouted, down = outbox.emit(), outbox.emit()
    outbox.change(unrouted, parked_on="unrouted")
    outbox.change(down, parked_on="runner")
    assert outbox.process() == {"processed": 1, "remaining": 0}
    assert [event.parked_on for event in SEEN] == [None]
    assert outbox.look(unrouted).status == "delivered"
    assert outbox.look(down).parked_on == "runner"


def test_a_settle_that_comes_late_changes_nothing_and_is_logged(outbox, alias, caplog):
    thief = uuid.uuid4()

    @handlers.handler("order.*")
    def slow(event):
        outbox.change(event, claimed_by=thief)

    event = outbox.emit()
    outbox.process()
    row = outbox.look(event)
    assert (row.status, row.claimed_by) == ("pending", thief)
    assert f"pillarbox_lease_lost: event {event.pk}" in caplog.text


def test_leases_are_renewed_before_they_run_out(outbox, settings, alias):
    settings.PILLARBOX_LEASE_SECONDS = 0.0
    handlers.handler("*")(remember)
    first, second = outbox.emit(), outbox.emit()

    @handlers.handler("order.*")
    def lose_the_other(event):
        # Meanwhile somebody else has taken what is next.
        outbox.change(second, claimed_by=uuid.uuid4())

    outbox.process()
    assert [event.pk for event in SEEN] == [first.pk]
    assert outbox.look(first).status == "delivered"
    assert outbox.look(second).status == "pending"


def test_patterns_match_as_the_relays_do():
    assert handlers.matches("order.*", "order.line.added")
    assert not handlers.matches("order.*", "order")
    assert handlers.matches("a*b*c", "a-b-b-c")
    assert not handlers.matches("ab*ba", "aba")
    assert not handlers.matches("order_placed", "orderXplaced")


@pytest.mark.parametrize("odd", ["order_1.%", "order[1].?", "back\\slash"])
def test_patterns_mean_the_same_in_the_database(outbox, odd):
    handlers.handler(odd + "*")(remember)
    event = outbox.emit(odd + ".done")
    outbox.emit("orderX1.z")
    outbox.emit("order1.x")
    outbox.emit("ORDER_1.%")
    assert outbox.process() == {"processed": 1, "remaining": 0}
    assert [seen.pk for seen in SEEN] == [event.pk]


def test_a_decorator_without_a_type_is_a_mistake():
    with pytest.raises(TypeError, match="give the event types"):
        handlers.handler(remember)


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_two_workers_share_and_no_transaction_is_open_while_a_handler_runs(outbox, alias):
    other = Store(alias)
    taken = []

    @handlers.handler("*")
    def look_around(event):
        assert not connections[alias].in_atomic_block
        taken.extend(other.claim(["*"], 100, 60.0, uuid.uuid4()))

    outbox.emit()
    assert outbox.process()["processed"] == 1
    assert taken == []


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_eager_mode_delivers_on_commit_and_never_fails_the_caller(outbox, alias, settings):
    settings.CELERY_TASK_ALWAYS_EAGER = True
    handlers.handler("order.*")(remember)
    with transaction.atomic(using=alias):
        event = outbox.emit()
        outbox.emit()
        assert SEEN == []
    assert len(SEEN) == 2
    assert outbox.look(event).status == "delivered"

    @handlers.handler("*")
    def refuse(event):
        raise RuntimeError

    failed = outbox.emit()
    assert outbox.look(failed).attempts == 1
    settings.PILLARBOX_LEASE_SECONDS = "nonsense"
    assert outbox.look(outbox.emit()).status == "pending"
    settings.PILLARBOX_HANDLERS = {"*": "there.is.none"}
    assert outbox.look(outbox.emit()).status == "pending"


@pytest.mark.django_db(databases="__all__")
def test_on_sqlite_claims_walk_the_partial_indexes():
    from pillarbox import statements

    for name, params in {"claim_handled": (1, 1.0, "t", "[]", 2, 5), "remaining_handled": ("[]",)}.items():
        statement, order = statements.prepared("sqlite", name)
        with connections["lite"].cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}", [params[number] for number in order])
            plan = "\n".join(row[-1] for row in cursor.fetchall())
        assert "USING INDEX outbox_event_due (next_attempt_at<?)" in plan
        assert "USING INDEX outbox_event_parked (parked_on=?)" in plan
        assert "SCAN outbox_event" not in plan


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_many_workers_take_each_event_once(outbox, alias):
    handlers.handler("*")(remember)
    rows = [{"aggregate_type": "Order", "aggregate_id": n, "event_type": "order.placed"} for n in range(200)]
    pillarbox.emit_events(rows, using=alias)

    def work() -> int:
        processed = 0
        try:
            while now := process_pending_events(batch_size=7, using=alias)["processed"]:
                processed += now
        finally:
            connections.close_all()
        return processed

    with ThreadPoolExecutor(4) as workers:
        assert sum(done.result() for done in [workers.submit(work) for _ in range(4)]) == 200
    assert sorted(int(event.aggregate_id) for event in SEEN) == list(range(200))
    assert OutboxEvent.objects.using(alias).filter(status="delivered").count() == 200
