"""A receiver over real HTTP that can be told to fail: by the field `case` of a payload, or for a whole destination."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENCE = 60


@dataclass(frozen=True)
class Received:
    """One request that was answered with success."""

    destination: str
    event_id: str
    event_type: str
    payload: Any


@dataclass(frozen=True)
class Answer:
    status: int = 200
    text: str = ""


class Receiver:
    """Its paths are the names of destinations."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.received: list[Received] = []
        self.tests: list[Received] = []
        self.changed = threading.Condition()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, destination: str) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/{destination}"

    def answer(self, case: str, status: int, text: str = "") -> None:
        """From now on, to payloads of this case, or to everything for `/DESTINATION`."""
        with self.changed:
            self.answers[case] = Answer(status, text)

    def accept(self, case: str) -> None:
        with self.changed:
            self.answers.pop(case, None)

    def of(self, case: str) -> list[Received]:
        """What was accepted of a case."""
        with self.changed:
            return [one for one in self.received if case_of(one.payload) == case]

    def wait_for(self, case: str, count: int) -> list[Received]:
        """Until so many of a case were accepted."""
        with self.changed:
            arrived = self.changed.wait_for(lambda: len(self.of(case)) >= count, PATIENCE)
            assert arrived, f"{len(self.of(case))} of {count} events of {case} arrived within {PATIENCE} s"
            return self.of(case)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def take(self, received: Received, is_test: bool = False) -> Answer:
        with self.changed:
            if is_test:
                self.tests.append(received)
                return self.answers.get(f"/{received.destination}", Answer())
            of_destination = self.answers.get(f"/{received.destination}", Answer())
            answer = self.answers.get(case_of(received.payload), of_destination)
            if answer.status < 300:
                self.received.append(received)
                self.changed.notify_all()
            return answer

    def handler(receiver) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                answer = receiver.take(
                    Received(
                        destination=self.path.strip("/"),
                        event_id=self.headers["webhook-id"],
                        event_type=self.headers.get("pillarbox-event-type", ""),
                        payload=json.loads(body),
                    ),
                    is_test=self.headers.get("pillarbox-test") == "true",
                )
                text = answer.text.encode()
                self.send_response(answer.status)
                if answer.status != 204:
                    self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def case_of(payload: Any) -> str:
    return payload.get("case", "") if isinstance(payload, dict) else ""
