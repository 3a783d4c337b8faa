"""The servers that tests share, and private ones that a test may kill and start again."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pymysql

PATIENCE = 60
RABBITMQ = "/usr/lib/rabbitmq/bin/rabbitmq-server"
"""RabbitMQ's own script. The one on Debian's path, of the same name, becomes another user first."""


def shared(variable: str) -> str:
    """The address of a server that all tests of a run share."""
    try:
        return os.environ[variable]
    except KeyError:
        raise AssertionError(f"{variable} is not set: run `make servers`, and set what it prints") from None


def postgres() -> str:
    return shared("PILLARBOX_TEST_POSTGRES")


def broker(name: str) -> str:
    """Of `rabbitmq` or `redis`. Tests keep apart by the names of their queues."""
    return shared({"rabbitmq": "PILLARBOX_TEST_AMQP", "redis": "PILLARBOX_TEST_REDIS"}[name])


def create_database(server: str = "postgres") -> str:
    """A fresh database on the shared PostgreSQL, or `mariadb`; its address."""
    name = f"pillarbox_test_{uuid.uuid4().hex}"
    address = shared({"postgres": "PILLARBOX_TEST_POSTGRES", "mariadb": "PILLARBOX_TEST_MYSQL"}[server])
    with connect(address) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    return f"{address.rsplit('/', 1)[0]}/{name}"


def connect(address: str) -> psycopg.Connection | pymysql.Connection:
    """A connection of its own, in autocommit, to a database by its URL."""
    if not address.startswith("mysql:"):
        return psycopg.connect(address, autocommit=True)
    url = urlsplit(address)
    return pymysql.connect(
        host=url.hostname, port=url.port, user=url.username, database=url.path[1:], charset="utf8mb4", autocommit=True
    )


def free_port() -> int:
    """Below the range that the kernel gives to outgoing connections, so that none of them can take it meanwhile."""
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class PrivateBroker:
    """A broker of one test: killed, it comes back on the same port with what it acknowledged."""

    #: Ends the server, and its connections at once.
    STOP = signal.SIGTERM

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory, self.port = directory, free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        raise NotImplementedError

    def command(self) -> tuple[list[str], dict[str, str]]:
        """What starts it, and with which environment."""
        raise NotImplementedError

    def start(self) -> None:
        command, variables = self.command()
        with (self.directory / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                env={**os.environ, **variables},
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + PATIENCE
        while not self.listens():
            assert self.process.poll() is None, (self.directory / "server.log").read_text()
            assert time.monotonic() < deadline, f"{command[0]} does not listen after {PATIENCE} s"
            time.sleep(0.02)

    def listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
        except OSError:
            return False
        return True

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """Shuts it down, as for a restart. Its port refuses connections then."""
        if self.process is not None:
            self.process.send_signal(self.STOP)
            self.process.wait(PATIENCE)
            self.process = None

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Lets it respond to nobody for a while. Its port accepts connections: a lost network would not refuse them."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        stopped: list[int] = []
        try:
            # The parent first, so that it has no new children.
            for processes in (lambda: [self.process.pid], lambda: map(int, children.read_text().split())):
                for process in processes():
                    os.kill(process, signal.SIGSTOP)
                    stopped.append(process)
            yield
        finally:
            for process in stopped:
                # A child may have been ending already.
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)


class PrivateRedis(PrivateBroker):
    """Has written to its disk whatever it acknowledges."""

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def command(self) -> tuple[list[str], dict[str, str]]:
        durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        return ["redis-server", "--bind", "127.0.0.1", "--port", str(self.port), *durable], {}


class PrivateRabbitMq(PrivateBroker):
    """Without epmd, which would outlive it."""

    NODE = "pillarbox@localhost"

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def command(self) -> tuple[list[str], dict[str, str]]:
        (self.directory / "enabled_plugins").write_text("[].\n")
        (self.directory / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\nlog.console.level = warning\n"
        )
        arguments = (
            f"-noinput -sname {self.NODE} -setcookie pillarbox -start_epmd false -erl_epmd_port {free_port()} "
            "-kernel inet_dist_use_interface {127,0,0,1}"
        )
        program = RABBITMQ if Path(RABBITMQ).exists() else shutil.which("rabbitmq-server") or RABBITMQ
        return [program], {
            "HOME": str(self.directory),
            # With input allowed the process is the server itself; -noinput takes it away again.
            "RABBITMQ_ALLOW_INPUT": "1",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": arguments,
            "RABBITMQ_NODENAME": self.NODE,
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": str(self.directory / "rabbitmq"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.directory / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.directory / "log"),
            "RABBITMQ_LOGS": "-",
        }


class PrivatePostgres(PrivateBroker):
    """PostgreSQL with a write-ahead log that can be decoded."""

    STOP = signal.SIGINT
    SETTINGS = ("fsync=off", "wal_level=logical", "max_slot_wal_keep_size=256MB", "unix_socket_directories=")

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        if os.geteuid() == 0:
            shutil.chown(directory, "postgres", "postgres")
            for parent in directory.parents[:3]:
                parent.chmod(parent.stat().st_mode | 0o011)
        initialize = [
            *self._program("initdb"),
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-sync",
            "-D",
            "data",
        ]
        subprocess.run(initialize, cwd=directory, check=True, capture_output=True)

    @property
    def url(self) -> str:
        return f"postgres://postgres@127.0.0.1:{self.port}/postgres"

    def command(self) -> tuple[list[str], dict[str, str]]:
        settings = [f"port={self.port}", "listen_addresses=127.0.0.1", *self.SETTINGS]
        return [*self._program("postgres"), "-D", "data", *(part for one in settings for part in ("-c", one))], {}

    def listens(self) -> bool:
        try:
            psycopg.connect(self.url).close()
        except psycopg.OperationalError:
            return False
        return True

    @staticmethod
    def _program(name: str) -> list[str]:
        """PostgreSQL refuses to run as root."""
        found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
        program = str(found[-1]) if found else name
        as_postgres = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--"]
        return [*(as_postgres if os.geteuid() == 0 else []), program]


class PrivateMariaDb(PrivateBroker):
    """MariaDB with one database, `inbox`."""

    SETTINGS = ("--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0", "--innodb-buffer-pool-size=32M")

    def __init__(self, directory: Path, *settings: str) -> None:
        super().__init__(directory)
        self.settings = settings
        # The directory of temporary files is its own: a server that starts deletes those of others.
        self.common = ["--no-defaults", f"--datadir={directory}/data", f"--tmpdir={directory}"]
        if os.geteuid() == 0:
            self.common.append("--user=root")
        install = ["mariadb-install-db", *self.common, "--auth-root-authentication-method=normal", "--skip-test-db"]
        subprocess.run([*install, "--skip-name-resolve"], cwd=directory, check=True, capture_output=True)
        (directory / "data/inbox").mkdir()

    @property
    def url(self) -> str:
        return f"mysql://root@127.0.0.1:{self.port}/inbox"

    def command(self) -> tuple[list[str], dict[str, str]]:
        places = ["--bind-address=127.0.0.1", f"--port={self.port}", f"--socket={self.directory}/socket"]
        names = [f"--pid-file={self.directory}/pid", "--skip-name-resolve"]
        program = shutil.which("mariadbd") or "/usr/sbin/mariadbd"
        return [program, *self.common, *places, *names, *self.SETTINGS, *self.settings], {}

    def listens(self) -> bool:
        try:
            connect(self.url).close()
        except pymysql.OperationalError:
            return False
        return True
