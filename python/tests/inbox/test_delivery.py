"""Events that the real relay delivers are handled exactly once, though receivers die and answers are lost."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.inbox.delivery import RELAY, deliver
from tests.inbox.kits import KITS, SECRET
from tests.processes import pillarbox
from tests.servers import connect, create_database

# With PyMySQL it takes 40 s, and with the other drivers 5 to 8.
NAMES = [name for name in KITS if name != "starlette-pymysql"]


@pytest.mark.parametrize("name", NAMES)
def test_every_event_is_handled_exactly_once(name: str, tmp_path: Path) -> None:
    outcome = deliver(name, tmp_path, events=1000, kills=3)
    assert outcome.is_exact, outcome
    # It was not an easy run.
    assert outcome.lost["answers"] > 5, outcome
    assert outcome.duplicates > 5, outcome


@pytest.mark.parametrize("name", ["starlette-psycopg", "express", "axum-postgres"])
def test_the_relay_understands_the_answers(name: str, start, tmp_path: Path) -> None:
    kit, outbox = start(name), create_database()
    (tmp_path / "pillarbox.toml").write_text(RELAY.format(outbox=outbox, port=kit.port, secret=SECRET))

    def run(*arguments: str) -> None:
        subprocess.run([pillarbox(), *arguments], cwd=tmp_path, check=True, capture_output=True)

    run("migrate")
    for number, order in enumerate(("succeed", "fail", "never")):
        run("emit", "Order", str(number), "order.placed", json.dumps({"do": order}))
    run("sweep")
    with connect(outbox) as connection:
        rows = connection.execute("SELECT payload->>'do', status, attempts, error_message FROM outbox_event").fetchall()
    found = {order: (status, attempts) for order, status, attempts, _ in rows}
    assert found == {"succeed": ("delivered", 0), "fail": ("pending", 1), "never": ("failed", 1)}
    errors = {order: error for order, _, _, error in rows}
    assert errors["fail"] == "the receiver answered 500 Internal Server Error"
    assert errors["never"].endswith("it refuses this event for good")
