"""The busy shop on a good day, for pictures: no problems, and its events go through the write-ahead log."""

from __future__ import annotations

import json

from .busy import KINDS, SHARES, BusyShop
from .program import wait_until


class QuietShop(BusyShop):
    """Needs a server whose log can be decoded, and the log enabled before its relays start."""

    def start(self) -> None:
        self.command("migrate")
        self.command("wal", "enable")
        super().start()

    def delivering(self) -> str:
        return f'{super().delivering()}[source]\nkind = "wal"\n'

    def furnish(self) -> None:
        wait_until("events go into the log", self.log_is_open, self.processes)
        for number in range(48211, 48211 + 120):
            event_type, kind = KINDS[number % len(KINDS)]
            payload = json.dumps({"case": "delivered", **self.order(number)})
            emit = "SELECT outbox_emit(%s, %s, %s, %s::jsonb, repeatable => true)"
            self.connection.execute(emit, (kind, str(number), event_type, payload))
        wait_until("all is delivered", lambda: self.count("delivered") >= 120, self.processes)

    def log_is_open(self) -> bool:
        return json.loads(self.command("--json", "wal", "status"))["status"]["is_open"]

    def minute(self, destination: str, ago: int) -> tuple[int, int, int, str, str]:
        delivered = int(640 * SHARES[destination] * self.wave(ago))
        return delivered, 0, 0, json.dumps(self.latency(delivered, 1.0)), json.dumps(self.latency(delivered, 0.45))
