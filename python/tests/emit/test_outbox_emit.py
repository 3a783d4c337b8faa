"""`outbox_emit` with the values of an application, as drivers of other languages bind them."""

from __future__ import annotations

import subprocess
import uuid
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Json, Jsonb

from tests.processes import ROOT, environment, pillarbox
from tests.servers import create_database

ID = uuid.UUID("018d8f60-0000-7000-8000-000000000001")
PAYLOAD = {"total": "19.90"}


@pytest.fixture(scope="module")
def database() -> str:
    address = create_database()
    subprocess.run([pillarbox(), "migrate"], env=environment(PILLARBOX_DATABASE_URL=address), check=True)
    return address


def written(database: str, id: Any) -> tuple[str, Any]:
    with psycopg.connect(database) as connection:
        row = connection.execute("SELECT aggregate_id, payload FROM outbox_event WHERE id = %s", [id]).fetchone()
    assert row is not None
    return row


@pytest.mark.parametrize("server_side", [True, False], ids=["bound", "literals"])
@pytest.mark.parametrize(
    "payload", [Json(PAYLOAD), Jsonb(PAYLOAD), '{"total": "19.90"}'], ids=["json", "jsonb", "text"]
)
@pytest.mark.parametrize("id", [7, 70_000, 2**40, ID, "42"], ids=["smallint", "integer", "bigint", "uuid", "text"])
def test_psycopg_binds_ids_and_payloads(database: str, id: Any, payload: Any, server_side: bool) -> None:
    with psycopg.connect(database) as connection:
        cursor = connection.cursor() if server_side else psycopg.ClientCursor(connection)
        call = "SELECT outbox_emit(%s, %s, %s, %s, repeatable => %s)"
        emitted = cursor.execute(call, ["Order", id, "order.placed", payload, True]).fetchone()[0]
    assert written(database, emitted) == (str(id), PAYLOAD)


def test_node_binds_ids_and_payloads(database: str, tmp_path: Path) -> None:
    script = tmp_path / "emit.mjs"
    script.write_text(f"""
        import pg from "pg";
        const client = new pg.Client(process.argv[2]);
        await client.connect();
        for (const id of [42, 42n, "42", "{ID}"]) {{
          for (const payload of [{{ total: "19.90" }}, '{{"total": "19.90"}}']) {{
            const call = "SELECT outbox_emit($1, $2, $3, $4, repeatable => true) AS id";
            const {{ rows }} = await client.query(call, ["Order", id, "order.placed", payload]);
            console.log(id.toString(), rows[0].id);
          }}
        }}
        await client.end();
    """)
    (tmp_path / "node_modules").symlink_to(ROOT / ".tools/node_modules")
    ran = subprocess.run(["node", script, database], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    lines = [line.split() for line in ran.stdout.splitlines()]
    assert len(lines) == 8
    for id, emitted in lines:
        assert written(database, emitted) == (id, PAYLOAD)
