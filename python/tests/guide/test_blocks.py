"""Checks the blocks of the guide that are not commands: tags, configuration, SQL, JSON and Python."""

from __future__ import annotations

import ast
import json
import os
import re
import sqlite3
import subprocess
from collections.abc import Collection
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import tomllib

from tests.guide.lab import SECRET
from tests.guide.page import Page, everything, guide
from tests.guide.statements import DATABASES, LEFT_OUT, PREPARED, REPLACED
from tests.processes import ROOT, pillarbox
from tests.servers import connect, create_database

TAGS = {"console", "diff", "ini", "js", "json", "python", "rust", "sh", "sql", "text", "toml"}
PAGES = {page.name: page for page in guide()}
BLOCKS = [block for page in PAGES.values() for block in page.fences]


def of(*tags: str, without: Collection[str] = ()) -> pytest.MarkDecorator:
    """Runs a test for each block with one of these tags that does not contain one of these texts."""
    found = [block for block in BLOCKS if block.tag in tags and not any(text in block.code for text in without)]
    return pytest.mark.parametrize("block", found, ids=[block.place for block in found])


def test_every_block_has_a_tag() -> None:
    blocks = [block for page in everything() for block in page.fences]
    assert {block.place: block.tag for block in blocks if block.tag not in TAGS} == {}


FRAGMENTS = {
    "docs/amqp.md": (
        "declare = ",
        '[destinations.rabbit]\nkind = "amqp"\nurl = "env:AMQP_URL"\nexchange = "shop"\nrouting_key = "{id}"\n',
    ),
    "docs/wal.md": ("[source.columns]", '[source]\nkind = "wal"\ntables = true\n'),
}
"""Blocks that continue another one, by their beginning, and what stands before them."""
NOT_CONFIGURATION = {"docs/start/rust.md": "[dependencies]"}
"""A manifest of Cargo: it has the dependencies of examples/outside, which is built."""
VARIABLES = {
    "AMQP_URL": "amqp://guest:guest@127.0.0.1/",
    "BILLING_SECRET": SECRET,
    "KAFKA_PASSWORD": "secret",
    "PILLARBOX_BROKER_URL": "amqp://guest:guest@127.0.0.1//",
    "REDIS_URL": "redis://127.0.0.1/0",
}
CREDENTIALS = """
-----BEGIN NATS USER JWT-----
e30.e30.e30
------END NATS USER JWT------
-----BEGIN USER NKEY SEED-----
SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY
------END USER NKEY SEED------
"""
FILES = {"/run/secrets/anna": "anna", "/etc/pillarbox/relay.creds": "relay.creds"}
"""Files outside of the directory, and what they are called in it."""


@of("toml")
def test_configurations_are_valid(block, tmp_path: Path) -> None:
    page = PAGES[block.page]
    code = page.included(block.code)
    if code.startswith(NOT_CONFIGURATION.get(block.page, "\0")):
        built = tomllib.loads((ROOT / "examples/outside/Cargo.toml").read_text())["dependencies"]
        needed = {
            name: needs for name, needs in built.items() if not (isinstance(needs, dict) and needs.get("optional"))
        }
        assert {**tomllib.loads(code)["dependencies"], "pillarbox": needed["pillarbox"]} == needed
        return
    beginning, before = FRAGMENTS.get(block.page, ("\0", ""))
    code = before + code if code.startswith(beginning) else code
    for printed, name in FILES.items():
        code = code.replace(printed, str(tmp_path / name))
    check(code, tmp_path)


CONFIGURATIONS = [
    "deploy/kubernetes/pillarbox.toml",
    "deploy/pillarbox.toml",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "examples").glob("*.toml") if path.name != "Cargo.toml"),
]


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_configurations_to_copy_are_valid(name: str, tmp_path: Path) -> None:
    check((ROOT / name).read_text(), tmp_path)


def check(code: str, directory: Path) -> None:
    """Fails if `pillarbox check-config` refuses a configuration. Destinations that only the routes name are added."""
    parsed = tomllib.loads(code)
    named = {name for route in parsed.get("routes", []) for name in route["to"]}
    code += "".join(
        f'\n[destinations.{name}]\nkind = "discard"\n' for name in named - set(parsed.get("destinations", {}))
    )
    made = json.loads(program(["admin", "make-token", "--json"], directory))
    password = json.loads(program(["admin", "hash-password", "--json"], directory))["password"]
    for path, content in {"anna": password, "relay.creds": CREDENTIALS, "schemas/order.json": "{}"}.items():
        (directory / path).parent.mkdir(exist_ok=True)
        (directory / path).write_text(content)
    (directory / "pillarbox.toml").write_text(code)
    program(["check-config"], directory, ANNA_TOKEN_HASH=made["hash"], OPERATOR_PASSWORD=password, **VARIABLES)


def program(arguments: list[str], directory: Path, **variables: str) -> str:
    address = os.environ["PILLARBOX_TEST_POSTGRES"]
    environment = {"PILLARBOX_DATABASE_URL": address, **os.environ, **variables}
    done = subprocess.run(
        [pillarbox(), *arguments], cwd=directory, env=environment, input="a password\n", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Outboxes:
    """A database of each kind with the outbox's tables, made when it is first used."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.made = directory, {}

    def __getitem__(self, kind: str):
        if kind not in self.made:
            url = f"sqlite://{self.directory}/outbox.db" if kind == "sqlite" else create_database(kind)
            program(["migrate"], self.directory, PILLARBOX_DATABASE_URL=url)
            self.made[kind] = sqlite3.connect(urlsplit(url).path) if kind == "sqlite" else connect(url)
        return self.made[kind]


@pytest.fixture(scope="module")
def outboxes(tmp_path_factory) -> Outboxes:
    return Outboxes(tmp_path_factory.mktemp("outboxes"))


@of("sql", without=LEFT_OUT)
def test_statements_run(block, outboxes: Outboxes) -> None:
    code = PAGES[block.page].included(block.code)
    kind = next((kind for beginning, kind in DATABASES.items() if beginning in code), "postgres")
    cursor = outboxes[kind].cursor()
    if kind == "postgres":
        # Each block has tables of its own, and those of the outbox without events.
        cursor.execute("ROLLBACK")
        cursor.execute("TRUNCATE public.outbox_event CASCADE; DROP SCHEMA IF EXISTS page CASCADE; CREATE SCHEMA page")
        cursor.execute("SET search_path = page, public")
    for statement, needs in PREPARED.items():
        if re.search(needs, code):
            cursor.execute(statement)
    for printed, real in REPLACED.items():
        code = code.replace(printed, real)
    run(cursor, code)


def run(cursor, code: str) -> None:
    """Executes statements. One with the comment `ERROR: message` must fail with that message, where … is any text."""
    while failing := re.search(r"^(.+;) +-- ERROR: (.+)\n", code, re.MULTILINE):
        with pytest.raises(psycopg.Error, match=re.escape(failing[2]).replace("…", ".*")):
            cursor.execute(failing[1])
        code = code.replace(failing[0], "")
    cursor.execute(code)


def test_the_signature_of_outbox_emit(outboxes: Outboxes) -> None:
    [block] = [block for block in PAGES["docs/sql.md"].fences if block.code.startswith("outbox_emit(")]
    lines = [re.sub(r"\s*--.*", "", line).strip(" ,") for line in block.code.splitlines()]
    printed = ", ".join(re.sub(r"\s+", " ", line) for line in lines[1:-1])
    listed = (
        "SELECT pg_get_function_arguments(oid), prorettype::regtype::text FROM pg_proc WHERE proname = 'outbox_emit'"
    )
    functions = []
    for parameters, result in outboxes["postgres"].cursor().execute(listed).fetchall():
        parameters = re.sub("::[a-z ]+", "", parameters).replace("timestamp with time zone", "timestamptz")
        functions.append((re.sub(r"\binteger\b", "int", parameters), f") RETURNS {result}"))
    assert (printed, lines[-1]) in functions


def test_no_entry_of_the_tables_is_left_over() -> None:
    sql = "".join(PAGES[block.page].included(block.code) for block in BLOCKS if block.tag == "sql")
    toml = "".join(block.code for block in BLOCKS if block.tag == "toml")
    unused = [text for text in (*LEFT_OUT, *DATABASES, *REPLACED) if text not in sql]
    unused += [needs for needs in PREPARED.values() if not re.search(needs, sql)]
    unused += [name for name in (*VARIABLES, *FILES) if name not in toml]
    beginnings = {**NOT_CONFIGURATION, **{page: beginning for page, (beginning, _) in FRAGMENTS.items()}}
    for page, beginning in beginnings.items():
        unused += [] if any(code.startswith(beginning) for code in Page(page).blocks_of("toml")) else [page]
    assert unused == []


@of("python", "json", "js")
def test_code_can_be_parsed(block) -> None:
    code = PAGES[block.page].included(block.code)
    if block.tag == "python":
        ast.parse(code)
    elif block.tag == "json":
        json.loads(code)
    else:
        node = ["node", "--input-type=module", "--check"]
        checked = subprocess.run(node, input=code, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr
