"""The private servers of a run: those of scripts/servers, waiting for their disk, and an nginx that answers 204.

Knows how they are started, stopped and what CPU they used; nothing of what runs on them.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TICKS = os.sysconf("SC_CLK_TCK")
NGINX = """
daemon off;
pid nginx.pid;
worker_processes {workers};
error_log stderr warn;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    keepalive_requests 100000000;
    server {{
        listen 127.0.0.1:{port} backlog=1024;
        location / {{ return 204; }}
    }}
}}
"""


class Servers:
    """They run from the start to the end of a `with` block."""

    postgres: str
    mysql: str
    amqp: str
    redis: str
    http: str

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="pillarbox-bench."))
        self._state = self.directory / "servers"
        self._nginx: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Servers:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        environment = {**os.environ, "PILLARBOX_SERVERS": "durable"}
        said = subprocess.run(
            [ROOT / "scripts/servers", "start", self._state],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        addresses = dict(re.findall(r"^export PILLARBOX_TEST_(\w+)=(\S+)$", said, re.MULTILINE))
        self.postgres, self.mysql = addresses["POSTGRES"], addresses["MYSQL"]
        self.amqp, self.redis = addresses["AMQP"], addresses["REDIS"]
        self._home = Path(self._state.read_text().strip())
        self._postmaster = int((self._home / "postgres/pid").read_text())
        self._start_nginx()

    def _start_nginx(self) -> None:
        program = shutil.which("nginx") or "/usr/sbin/nginx"
        home = self.directory / "nginx"
        home.mkdir()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        configuration = home / "nginx.conf"
        configuration.write_text(NGINX.format(port=port, workers=os.cpu_count()))
        self._nginx = subprocess.Popen(
            [program, "-p", home, "-c", configuration, "-e", "stderr"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(home / "log").open("wb"),
            start_new_session=True,
        )
        self.http = f"http://127.0.0.1:{port}/"
        for _ in range(200):
            if self._nginx.poll() is not None:
                break
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.02)
        raise RuntimeError(f"nginx did not start: {(home / 'log').read_text()}")

    def restart_postgres(self, settings: Mapping[str, str]) -> None:
        """With these settings beside its own, until the next call."""
        data = self._home / "postgres/data"
        more = data / "bench.conf"
        more.write_text("".join(f"{name} = '{value}'\n" for name, value in settings.items()))
        more.chmod(0o644)
        configuration = data / "postgresql.conf"
        line = f"include_if_exists = '{more.name}'\n"
        if line not in configuration.read_text():
            with configuration.open("a") as file:
                file.write(line)
        log = self._home / "postgres/server.log"
        command = [*as_postgres(), program("pg_ctl"), "restart", "--silent", "-w", "-m", "fast", "-D", data, "-l", log]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self._postmaster = int((data / "postmaster.pid").read_text().split()[0])
        # So that it is found when the servers are stopped.
        (self._home / "postgres/pid").write_text(f"{self._postmaster}\n")

    def stop(self) -> None:
        """Also what has started only in part."""
        if self._nginx is not None:
            self._nginx.terminate()
            self._nginx.wait()
        subprocess.run([ROOT / "scripts/servers", "stop", self._state], check=True)
        shutil.rmtree(self.directory, ignore_errors=True)

    def cpu(self) -> float:
        """CPU seconds of PostgreSQL's processes so far, with those that have ended."""
        ticks = 0
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(entry.name) == self._postmaster:
                # With its children that have ended.
                ticks += sum(int(field) for field in fields[11:15])
            elif int(fields[1]) == self._postmaster:
                ticks += int(fields[11]) + int(fields[12])
        return ticks / TICKS


def program(name: str) -> str:
    """A program of the newest PostgreSQL."""
    newest = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    return str(newest[-1] / name) if newest else name


def as_postgres() -> list[str]:
    """PostgreSQL refuses to run as root."""
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--"]
    return user if os.geteuid() == 0 else []
