"""The commands that the guide prints, and what a test needs to run them: substitutions, and what is left out."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from tests.guide.page import COMPILES, QUICK_STARTS, Page, everything

IN_ORDER = {"README.md", *(f"docs/start/{language}.md" for language in QUICK_STARTS)}
"""Pages whose blocks are run in their order by test_quick_starts.py, except those that compile or install."""
OTHER = {"docs/command-line.md", "CHANGELOG.md"}
"""Not commands for the reader: the help of the program, which a test compares, and what earlier versions had."""
SPANS = re.compile(r"(?:pillarbox|curl|psql|make|cargo|docker|python3|bench/run) .+|scripts/[\w-]+( .+)?")

NOT_RUN = {
    r"cargo (install|nextest|build|deny|package|publish|update|run -p pillarbox-examples)\b.*": (
        "compiles or publishes; the tests of Rust and of the packages do"
    ),
    r"INSTA_UPDATE=always cargo nextest .*": "writes the snapshots of a new migration",
    r"git diff crates/.*": "shows the snapshots of a new migration",
    r"(pip|npm) install .*": "installs what the tests have; the tests of the packages install ours",
    r"apt install .*": "installs packages of the machine, as scripts/setup does",
    r"docker build .*": "needs Docker and its registry; the release builds it",
    r"python manage\.py .*": "needs a Django project; test_management.py parses it, python/tests/django runs it",
    r"(eval \"\$\()?scripts/\S+( [\w./ ]+)?(\)\")?": "sets up, tests or releases this repository",
    r"export PILLARBOX_TEST_POSTGRES_VERSION=17": "the servers run already",
    r"PILLARBOX_PROGRAM=\S+ \.venv/bin/pytest .*": "runs the tests of Python, of which this is one",
    r"kubectl .*": "needs a cluster; the tests of the packages read these manifests",
    r"(sha256sum|gh) .*": "needs a release",
    r"python/examples/shop/run": "python/tests/celery/test_shop.py runs it",
    r"bench/run --only latency": "measures, for minutes",
}
"""What is left out, as a pattern for the whole command, and why."""

NAMED = {
    "pillarbox celery-relay",
    "pillarbox dead-letters retry",
    "pillarbox destinations pause",
    "pillarbox destinations test",
    "pillarbox events retry",
    "pillarbox events show",
    "pillarbox keys rotate",
    "pillarbox route",
}
"""Commands that the text only names, without the arguments that they need. The program must know them."""

SUBSTITUTIONS = {
    r"cargo run --release -- ": "pillarbox ",
    r"^make ": "make --directory $ROOT --dry-run --no-print-directory ",
    r"\bpostgres://shop@db/shop\b": "{database}",
    r"\bpostgres://app@db1:5432,db2:5432/shop": "postgres://postgres@{hosts}/{name}",
    r"\bpostgres://app@/shop\?host=db1,db2&port=5432,5432": (
        "postgres://postgres@/{name}?host=127.0.0.1,127.0.0.1&port={port},{port}"
    ),
    r"\bmysql://shop@db/shop\b": "{mariadb}",
    r'"\$DATABASE_URL"': "{database}",
    r"\bevents fail ID\b": "events fail {due}",
    r"\bID\b": "{failed}",
    r"\b01a1de8f-1fc4-72fb-bfa6-a8fd4fa4e54e\b": "{failed}",
    r"\b01a1ef2b-e021-7df8-bb5a-bb56306f9dd4\b": "{delivered}",
    r"\bGROUP\b": "{group}",
    r"\bNAME\b": "billing",
    r"\bROLE\b": "emitter",
    r"--emit-role shop\b": "--emit-role emitter",
    r"--emit-role USER@HOST --relay-role USER@HOST": "--emit-role emitter@localhost --relay-role relay@localhost",
    r"https://outbox\.example\.com:8800": "http://127.0.0.1:{admin}",
    r"\bcurl ": "curl --fail --silent --show-error ",
    r"\bnats://localhost:4222\b": "nats://127.0.0.1:{nats}",
    r"\bnats\.connect\(\)": 'nats.connect("nats://127.0.0.1:{nats}")',
    r"\bnats-server -js\b": "nats-server -js --store_dir {work}/nats --port {nats}",
    r"^moto_server --port 5000 &$": (
        "moto_server --port {moto} &\n"
        "curl --silent --output /dev/null --retry 60 --retry-connrefused --retry-delay 1 http://127.0.0.1:{moto}"
    ),
    r"\bhttp://127\.0\.0\.1:5000\b": "http://127.0.0.1:{moto}",
    r"amqp://guest:guest@broker:5672//": "{amqp}",
    r"--config deploy/": "--config $ROOT/deploy/",
    r"/tmp/old\.json": "{work}/main.json",
    r"^python - <<": "{brokers}/python - <<",
    r"^aws sqs create-queue --queue-name orders\.fifo --attributes FifoQueue=true$": (
        "{brokers}/python -c \"import boto3; boto3.client('sqs', 'eu-west-1').create_queue("
        "QueueName='orders.fifo', Attributes=dict(FifoQueue='true'))\""
    ),
    r"^aws sqs receive-message --queue-url (\S+) --message-attribute-names All$": (
        "{brokers}/python -c \"import boto3; print(boto3.client('sqs', 'eu-west-1').receive_message("
        "QueueUrl='http://127.0.0.1:{moto}/123456789012/orders.fifo', MessageAttributeNames=['All'])['Messages'])\""
    ),
}
"""What is replaced in the printed commands, and by what."""

ATTENDED = {
    r"pillarbox( --config \S+)? relay": ("relay started", "SIGTERM"),
    r"pillarbox celery-relay --config pillarbox\.toml": ("relay started", "SIGTERM"),
    r"pillarbox admin": ("admin is served", "SIGTERM"),
    r"pillarbox dev( --fail 1)?": (r"attempt \d: 204", "SIGTERM"),
    r"pillarbox top": ("due", "q"),
    r"pillarbox dead-letters retry --group GROUP --rate 50": (r"\[y/N\]", "y\n"),
    r"pillarbox events retry --failed --type 'order\.\*'": (r"\[y/N\]", "y\n"),
}
"""Commands that run until they are stopped, or ask: what they print then, and what a person does at the terminal."""

FAILS = {
    "pillarbox schemas check old.json new.json --mode backward": 1,
}
"""Commands that must fail here, and their exit codes."""

PRINTS = {
    "pillarbox schemas check old.json new.json --mode backward",
    "pillarbox route --event-type order.placed --aggregate-type Order --payload '{\"total\": 20}'",
}
"""Commands whose output is the next block of text on their page."""


@dataclass(frozen=True)
class Unit:
    """What is run at once: a block of commands, or a command in the text."""

    place: str
    lines: tuple[str, ...]
    heads: tuple[str, ...] = ()
    """The heads of the tables that are printed, according to the page."""

    @property
    def page(self) -> str:
        return self.place.split(":")[0]

    @property
    def commands(self) -> list[str]:
        return [command(line) for line in self.lines]


def command(line: str) -> str:
    """A line without the comment at its end."""
    return re.sub(r"\s+#.*", "", line).strip()


def units() -> list[Unit]:
    """All commands of the guide and of other READMEs: the blocks, then each command of the text that is in no block."""
    pages = [page for page in everything() if page.name not in OTHER]
    found: dict[tuple[str, ...], Unit] = {}
    for page in pages:
        for unit in blocks(page):
            found.setdefault(equal(unit), unit)
    seen = {one for commands in found for one in commands}
    for page in pages:
        for span in page.spans():
            if SPANS.fullmatch(span) and "…" not in span and span not in NAMED | seen:
                seen.add(span)
                found[(span,)] = Unit(f"{page.name}:{span}", (span,))
    return list(found.values())


def equal(unit: Unit) -> tuple[str, ...]:
    """What is run of a unit. Two with the same are run once."""
    kept = [command(line) for line in unit.lines if not left_out(line)]
    return tuple(re.sub("^cargo run --release -- ", "pillarbox ", line) for line in kept) or unit.lines


def blocks(page: Page) -> list[Unit]:
    found = []
    for block in page.fences:
        heads = []
        if block.tag == "console":
            lines = re.findall(r"^\$ (.+)$", block.code, re.MULTILINE)
            heads = [" ".join(head.split()) for head in re.findall(r"^[A-Z/]{2}[A-Z/ ]+$", block.code, re.MULTILINE)]
        elif block.tag == "sh":
            lines = block.code.splitlines()
        else:
            continue
        if page.name in IN_ORDER and not block.ignored and not block.code.startswith(COMPILES):
            continue
        found.append(Unit(block.place, tuple(lines), tuple(heads)))
    return found


def left_out(line: str) -> str | None:
    """The entry of NOT_RUN that leaves a line out."""
    return next((pattern for pattern in NOT_RUN if re.fullmatch(pattern, command(line))), None)


def script(unit: Unit, values: dict[str, object]) -> str:
    """The commands of a unit as they are run, nothing if none is."""
    lines = []
    for line in unit.lines:
        if left_out(line):
            continue
        attended = next((ATTENDED[pattern] for pattern in ATTENDED if re.fullmatch(pattern, command(line))), None)
        for pattern, real in SUBSTITUTIONS.items():
            line = re.sub(pattern, lambda _, real=real: str(filled(real, values)), line)
        if attended:
            line = f"attend {' '.join(map(shlex.quote, attended))} {command(line)}"
        lines.append(line)
    return "\n".join(lines)


def filled(text: str, values: dict[str, object]) -> str:
    """Replaces the names in braces. A value may be a function, which makes it."""

    def value(match: re.Match) -> str:
        found = values[match[1]]
        return str(found() if callable(found) else found)

    return re.sub(r"\{(\w+)\}", value, text)
