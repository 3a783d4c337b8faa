"""sqlx and tokio-postgres in turns: the claim by lock and its settle, direct and through PgBouncer.

bench/driver/run          builds the program, starts private servers, prints one table
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from frame.bench import Bench
from frame.database import Database

DRIVERS = ("sqlx", "tokio-postgres")
# Mode, events in a batch, events in all, how statements are named, and whether PgBouncer is between.
CASES = (
    ("delete", 500, 100_000, "prepared", False),
    ("keep", 500, 100_000, "prepared", False),
    ("delete", 500, 100_000, "pooled", True),
    ("delete", 1, 3_000, "prepared", False),
    ("delete", 1, 3_000, "pooled", False),
    ("delete", 1, 3_000, "pooled", True),
)


@contextmanager
def pgbouncer(bench: Bench, postgres: str) -> Iterator[int]:
    """A transaction pooler before the server; yields its port."""
    address = urlsplit(postgres)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = bench.directory / "pgbouncer"
    home.mkdir()
    (home / "users.txt").write_text(f'"{address.username}" ""\n')
    (home / "pgbouncer.ini").write_text(
        f"[databases]\n* = host=127.0.0.1 port={address.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nauth_type = trust\nauth_file = {home}/users.txt\npool_mode = transaction\n"
        "unix_socket_dir =\nignore_startup_parameters = extra_float_digits\n"
    )
    if os.getuid() == 0:
        shutil.chown(home, "postgres")
    command = [shutil.which("pgbouncer") or "/usr/sbin/pgbouncer", str(home / "pgbouncer.ini")]
    user = {"user": "postgres"} if os.getuid() == 0 else {}
    # The pooler refuses to run as root, and its user must reach its files.
    bench.directory.chmod(0o711)
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, **user)
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        else:
            raise RuntimeError(f"PgBouncer did not start: {(home / 'log').read_text()}")
        yield port
    finally:
        process.terminate()
        process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    taken: dict[tuple[object, ...], dict[str, list[dict[str, float]]]] = {}
    with Bench.start(quick=True) as bench, pgbouncer(bench, bench._servers.postgres) as port:
        templates = {count: fill(bench, count) for count in {case[2] for case in CASES}}
        for number in range(options.rounds):
            for case in CASES:
                for driver in DRIVERS if number % 2 == 0 else reversed(DRIVERS):
                    report = run(bench, options.program, driver, case, templates[case[2]], port)
                    taken.setdefault(case, {}).setdefault(driver, []).append(report)
                    bench.log(f"round {number + 1}: {case}, {driver}: {report}")
    tell(taken)
    return 0


def fill(bench: Bench, count: int) -> Database:
    database = bench.outbox(f"driver_{count}")
    bench.run_load(["fill", "--database", database.url, "--count", str(count)])
    database.rest("outbox_event")
    return database


def run(
    bench: Bench, program: Path, driver: str, case: tuple[str, int, int, str, bool], template: Database, port: int
) -> dict[str, float]:
    mode, batch, _, names, pooled = case
    database = bench.postgres("driver", template)
    address = urlsplit(database.url)
    url = f"postgres://{address.username}@127.0.0.1:{port}{address.path}" if pooled else database.url
    said = bench.run([str(program.resolve()), url, driver, mode, str(batch), names])
    # A pooler keeps its connections, and a database with one cannot be dropped.
    database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    database.drop()
    return json.loads(said)


def tell(taken: dict[tuple[object, ...], dict[str, list[dict[str, float]]]]) -> None:
    print("| | driver | events/s | cycle p50 µs | p99 µs | client CPU µs per event |\n|---|---|---|---|---|---|")
    for (mode, batch, _, names, pooled), drivers in taken.items():
        for driver, reports in drivers.items():
            cells = [
                statistics.median(report[key] for report in reports)
                for key in ("rate", "cycle_p50_us", "cycle_p99_us", "cpu_us_per_event")
            ]
            name = f"{mode}, batches of {batch}, {names}{', through PgBouncer' if pooled else ''}"
            print(f"| {name} | {driver} | {cells[0]:,.0f} | {cells[1]:,.0f} | {cells[2]:,.0f} | {cells[3]:.2f} |")


if __name__ == "__main__":
    sys.exit(main())
