"""What a run was made on and with: processor, memory, disk, versions of all programs, settings of the servers."""

from __future__ import annotations

import os
import platform
import re
import statistics
import subprocess
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import amqp
import redis

from frame.report import About

if TYPE_CHECKING:
    from frame.bench import Bench

SETTINGS = (
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "shared_buffers",
    "max_wal_size",
    "checkpoint_timeout",
    "autovacuum",
    "jit",
    "max_connections",
)


def describe(bench: Bench) -> About:
    postgres = bench.postgres("about")
    settings = ", ".join(f"{name} {postgres.value(f'SHOW {name}')}" for name in SETTINGS)
    versions = [
        ("Pillarbox", bench.run_program(["--version"]).strip()),
        ("PostgreSQL", postgres.value("SHOW server_version")),
        ("RabbitMQ", rabbitmq(bench.amqp)),
        ("Redis", redis.Redis.from_url(bench.redis).info("server")["redis_version"]),
        ("nginx", said(["nginx", "-v"]).removeprefix("nginx version: ")),
        ("rustc", said(["rustc", "--version"])),
        ("Python", platform.python_version()),
        ("psycopg", metadata.version("psycopg")),
    ]
    postgres.drop()
    return About(
        [
            processor(),
            memory(),
            system(),
            disk(bench.directory),
            load(),
        ],
        versions,
        [
            ("PostgreSQL", settings),
            ("RabbitMQ", "defaults; durable classic queues, persistent messages"),
            ("Redis", "no persistence"),
            ("nginx", f"{os.cpu_count()} workers, keep-alive without limit, no log, `return 204`"),
        ],
    )


def said(command: list[str]) -> str:
    """What a program says of itself, on whichever stream."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PATH": path}, check=True)
    return (done.stdout or done.stderr).strip()


def rabbitmq(url: str) -> str:
    parts = urlsplit(url)
    with amqp.Connection(host=f"{parts.hostname}:{parts.port}") as connection:
        return connection.server_properties["version"]


def processor() -> str:
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return f"{os.cpu_count()} CPUs: {found[1] if found else platform.machine()}; clients and servers share them"


def memory() -> str:
    found = re.search(r"^MemTotal:\s*(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return f"{int(found[1]) / 1024**2:.0f} GiB of memory" if found else "memory unknown"


def system() -> str:
    release = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    return f"{release}, Linux {platform.release()}"


def load() -> str:
    return f"load average before the run: {os.getloadavg()[0]:.2f}"


def disk(directory: Path) -> str:
    """What a commit has to wait for."""
    path = directory / "fdatasync"
    times = []
    with path.open("wb", buffering=0) as file:
        for _ in range(200):
            file.write(bytes(8192))
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    path.unlink()
    return f"fdatasync of 8 KiB takes {statistics.median(times) * 1e6:.0f} µs (median)"
