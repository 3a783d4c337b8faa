"""MariaDB: the tables that Django makes, migrations that were cut off, and what only this server has."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.checks import run_checks
from django.db import DatabaseError, IntegrityError, OperationalError, ProgrammingError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

import pillarbox
from pillarbox import databases, schema, statements
from pillarbox.databases.mysql import Mysql
from pillarbox.models import OutboxEvent
from pillarbox.store import Store
from tests import servers
from tests.django import program
from tests.django.test_schema import manage
from tests.outboxes import database as settings_of
from tests.outboxes import routers


@pytest.fixture
def database() -> Iterator[str]:
    """The address of an empty database."""
    address = servers.create_database("mariadb")
    yield address
    ask(address, f"DROP DATABASE {address.rsplit('/', 1)[1]}")


other = database


def ask(address: str, statement: str) -> list[tuple[Any, ...]]:
    with servers.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


@contextmanager
def opened(address: str) -> Iterator[BaseDatabaseWrapper]:
    """Django's connection to a database by its URL."""
    connection = connections.create_connection("maria")
    connection.settings_dict = {**connection.settings_dict, **settings_of(address)}
    try:
        yield connection
    finally:
        connection.close()


def migrate(address: str) -> None:
    """What `manage.py migrate` does, without a process."""
    with opened(address) as connection:
        for version, name in schema.VERSIONS:
            schema.ApplyOutbox(version, name).apply(connection)


def tables(address: str) -> list[str]:
    return [name for (name,) in ask(address, "SHOW TABLES LIKE 'outbox%'")]


def dump(address: str) -> list[Any]:
    """The tables, the procedure, and which versions are written down."""
    made = [ask(address, f"SHOW CREATE TABLE {table}")[0][1] for table in tables(address)]
    made = [re.sub(r" AUTO_INCREMENT=\d+", "", table) for table in made]
    procedure = ask(address, "SHOW CREATE PROCEDURE outbox_emit")[0][2]
    return [*made, procedure, *ask(address, "SELECT version, name, least_program FROM outbox_migration")]


def test_the_tables_are_the_programs(database, other, tmp_path):
    manage("migrate", "--database", "maria", mysql=database)
    program.run(other, "migrate", cwd=tmp_path)
    assert dump(database) == dump(other)
    # Each takes the other's.
    assert program.run(database, "stats", cwd=tmp_path)["due"] == 0
    manage("migrate", "--database", "maria", mysql=other)
    assert dump(database) == dump(other)


@pytest.mark.django_db(databases=["maria"])
def test_a_migration_that_was_cut_off_is_completed(database):
    migrate(database)
    whole = dump(database)
    assert len(whole) == 14
    ask(database, "INSERT INTO outbox_event (aggregate_type, aggregate_id, event_type) VALUES ('Order', '1', 'kept')")
    for statement in (
        "DROP TABLE outbox_audit, outbox_job, outbox_session",
        "DROP PROCEDURE outbox_emit",
        "DELETE FROM outbox_migration",
    ):
        ask(database, statement)
    migrate(database)
    assert dump(database) == whole
    assert ask(database, "SELECT event_type FROM outbox_event") == [("kept",)]


def test_back_to_nothing(database):
    for target in (["pillarbox"], ["pillarbox", "zero"]):
        manage("migrate", *target, "--database", "maria", mysql=database)
        assert bool(tables(database)) == ("zero" not in target)
    assert ask(database, "SHOW PROCEDURE STATUS WHERE Db = database()") == []


@pytest.mark.django_db(databases=["maria"])
def test_a_table_of_somebody_else_is_not_touched(database):
    ask(database, "CREATE TABLE outbox_event (id int)")
    for _ in range(2):
        with pytest.raises(ProgrammingError, match="has a table outbox_event that is not Pillarbox's; rename it"):
            migrate(database)
    assert tables(database) == ["outbox_event"]


@pytest.mark.django_db(databases=["maria"])
def test_two_do_not_migrate_at_once(database, monkeypatch):
    monkeypatch.setattr("pillarbox.databases.mysql._MIGRATING_SECONDS", 0)
    with opened(database) as holder:
        with Mysql(holder).migrating(), pytest.raises(OperationalError, match="another program has been migrating"):
            migrate(database)
        migrate(database)


@pytest.mark.django_db(databases=["maria"])
def test_without_the_right_to_create_a_procedure_the_tables_are_enough(database, caplog):
    name, user = database.rsplit("/", 1)[1], f"u{uuid.uuid4().hex[:12]}"
    rights = "SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX, DROP, REFERENCES"
    ask(database, f"CREATE USER {user}@'%' IDENTIFIED BY 'p@ss'")
    ask(database, f"GRANT {rights} ON {name}.* TO {user}@'%'")
    try:
        migrate(database.replace("root@", f"{user}:p%40ss@"))
    finally:
        ask(database, f"DROP USER {user}@'%'")
    assert "outbox_event" in tables(database)
    assert ask(database, "SHOW PROCEDURE STATUS WHERE Db = database()") == []
    assert "procedure outbox_emit not created" in caplog.text


def test_sqlmigrate_names_the_servers_collation():
    told = manage("sqlmigrate", "pillarbox", "0001", "--database", "maria")
    assert "CREATE TABLE IF NOT EXISTS outbox_event (" in told
    assert "COLLATE utf8mb4_nopad_bin;" in told
    assert "{collation}" not in told


@pytest.mark.parametrize(
    ("version", "cluster", "complaint"),
    [
        ((10, 5, 27), "OFF", "too old; use MariaDB 10.6 or MySQL 8.0.19"),
        ((10, 6, 0), "ON", "a node of a Galera cluster"),
    ],
)
@pytest.mark.django_db(databases=["maria"])
def test_servers_that_the_program_refuses_are_refused(monkeypatch, version, cluster, complaint):
    maria = Mysql(connections["maria"])
    monkeypatch.setitem(maria.connection.__dict__, "mysql_version", version)
    monkeypatch.setattr(maria, "run", lambda name, *params: [("version", "x"), ("wsrep_on", cluster)])
    with pytest.raises(DatabaseError, match=complaint), maria.migrating():
        pass


@pytest.mark.django_db(databases=["maria"])
def test_the_procedure_emits_what_django_reads():
    with connections["maria"].cursor() as cursor:
        cursor.execute("CALL outbox_emit('Order', '1', 'order.placed', %s, NULL, NULL, 9, NULL)", ['{"grün": "😀"}'])
        ((id,),) = cursor.fetchall()
    event = OutboxEvent.objects.using("maria").get()
    assert (str(event.pk), event.pk.version, event.payload, event.max_attempts) == (id, 7, {"grün": "😀"}, 9)
    with pytest.raises(IntegrityError, match='"order.placed" with the idempotency key "Order:1" exists already'):
        pillarbox.emit_event("Order", "1", "order.placed", using="maria")


@pytest.mark.django_db(transaction=True, databases=["maria"])
def test_a_user_that_may_only_emit_is_enough(monkeypatch):
    maria, user = connections["maria"], f"u{uuid.uuid4().hex[:12]}"
    address, given = databases.of(maria).url(), maria.settings_dict["USER"]
    ask(address, f"CREATE USER {user}@'%'")
    read = "id, seq, event_type, idempotency_key, status, created_at"
    ask(address, f"GRANT INSERT, SELECT ({read}) ON outbox_event TO {user}@'%'")
    try:
        monkeypatch.setitem(maria.settings_dict, "USER", user)
        maria.close()
        fields = {"aggregate_type": "Order", "event_type": "order.placed", "using": "maria"}
        pillarbox.emit_event(**fields, aggregate_id="1")
        # Many are written with ON DUPLICATE KEY UPDATE.
        ask(address, f"GRANT UPDATE ON outbox_event TO {user}@'%'")
        maria.close()
        rows = [{"aggregate_type": "Order", "event_type": "order.paid", "aggregate_id": number} for number in range(3)]
        assert len(pillarbox.emit_events(rows, using="maria")) == 3
        with pytest.raises(IntegrityError, match="exists already"):
            pillarbox.emit_event(**fields, aggregate_id="1")
    finally:
        maria.close()
        maria.settings_dict["USER"] = given
        ask(address, f"DROP USER {user}@'%'")


@pytest.mark.django_db(databases=["maria"])
def test_names_that_differ_in_case_or_spaces_are_different():
    for name in ("Order", "order", "order "):
        pillarbox.emit_event("Order", "1", "order.placed", idempotency_key=name, using="maria")
    events = OutboxEvent.objects.using("maria")
    assert events.filter(idempotency_key="order").count() == 1
    assert events.count() == 3


@pytest.mark.django_db(transaction=True, databases=["maria"])
def test_a_duplicate_is_found_in_any_isolation(monkeypatch):
    """Under REPEATABLE READ the transaction does not see the other event, and still cannot emit it."""
    maria = connections["maria"]
    monkeypatch.setitem(maria.settings_dict, "OPTIONS", {**maria.settings_dict["OPTIONS"], "isolation_level": None})
    maria.close()
    with transaction.atomic(using="maria"):
        assert not OutboxEvent.objects.using("maria").exists()
        row = (
            "INSERT INTO outbox_event (aggregate_type, aggregate_id, event_type) VALUES ('Order', '1', 'order.placed')"
        )
        ask(databases.of(maria).url(), row)
        assert not OutboxEvent.objects.using("maria").exists()
        fields = {"aggregate_type": "Order", "event_type": "order.placed"}
        for emit in (
            lambda: pillarbox.emit_event(**fields, aggregate_id="1", using="maria"),
            lambda: pillarbox.emit_events([{**fields, "aggregate_id": n} for n in "21"], using="maria"),
        ):
            with pytest.raises(IntegrityError, match="exists already"):
                emit()
        pillarbox.emit_event(**fields, aggregate_id="3", using="maria")
    maria.close()
    assert {event.aggregate_id for event in OutboxEvent.objects.using("maria").all()} == {"1", "3"}


@pytest.mark.django_db(databases=["maria"])
def test_claims_walk_the_index_and_sort_nothing():
    for name, params in {"claim_handled": (1, 7, "[]"), "remaining_handled": ("[]",)}.items():
        statement, order = statements.prepared("mysql", name)
        with connections["maria"].cursor() as cursor:
            cursor.execute(f"EXPLAIN {statement}", [params[number] for number in order])
            plan = [row for row in cursor.fetchall() if row[2] == "outbox_event"]
        assert [(row[3], row[5]) for row in plan] == [("range", "outbox_event_due")] * 2
        assert not any("filesort" in row[-1] for row in plan)


@pytest.mark.django_db(transaction=True, databases=["maria"])
def test_a_claim_locks_only_what_it_takes():
    fields = {"aggregate_type": "Order", "event_type": "order.placed"}
    for number in range(6):
        kind = "order.paid" if number % 2 else "order.placed"
        pillarbox.emit_event(**{**fields, "event_type": kind}, aggregate_id=number, using="maria")
    with transaction.atomic(using="maria"):
        taken = Store("maria").claim(["*.paid"], 2, 60.0, uuid.uuid4())
        assert [event.aggregate_id for event in taken] == ["1", "3"]
        free = ask(
            databases.of(connections["maria"]).url(),
            "SELECT aggregate_id FROM outbox_event FORCE INDEX (PRIMARY) ORDER BY seq FOR UPDATE SKIP LOCKED",
        )
    assert [name for (name,) in free] == ["0", "2", "4", "5"]


@pytest.mark.django_db(transaction=True, databases=["maria"])
def test_the_victim_of_a_deadlock_is_repeated_outside_of_a_transaction():
    victims = []

    def fail_once(execute, *statement):
        if not victims and "INSERT INTO outbox_event" in statement[0]:
            victims.append(statement)
            raise OperationalError(1213, "Deadlock found when trying to get lock; try restarting transaction")
        return execute(*statement)

    with connections["maria"].execute_wrapper(fail_once):
        pillarbox.emit_event("Order", "1", "order.placed", using="maria")
    assert OutboxEvent.objects.using("maria").count() == 1
    victims.clear()
    with (
        connections["maria"].execute_wrapper(fail_once),
        pytest.raises(OperationalError, match="Deadlock"),
        transaction.atomic(using="maria"),
    ):
        pillarbox.emit_event("Order", "2", "order.placed", using="maria")


def test_errors_that_end_a_connection_are_known():
    maria = Mysql(connections["maria"])
    for number in (2006, 2013, 4031, 1927, 1290, 1792):
        assert maria.is_lost(OperationalError(number, "gone")), number
    for error in (OperationalError(1213, "deadlock"), OperationalError("text"), OperationalError()):
        assert not maria.is_lost(error)


@pytest.mark.django_db(databases="__all__")
def test_a_character_set_without_emoji_is_warned_of(settings, monkeypatch):
    settings.DATABASE_ROUTERS = routers("maria")
    assert [message.id for message in run_checks()] == []
    monkeypatch.setitem(connections["maria"].settings_dict, "OPTIONS", {"charset": "utf8"})
    assert [message.id for message in run_checks()] == ["pillarbox.W006"]
