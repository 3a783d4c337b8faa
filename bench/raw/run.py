"""Runs one design on a filled table and says how fast it was. One or two processes, each with a connection of its own.

    python raw/run.py --database URL --design g --batch 500 [--part 0/2]

libpq is called directly, with prepared statements and binary results that nobody decodes but for the ids and the
floor: per batch the client does a few hundred microseconds of work. Prints what frame/processes.py reads.
"""

from __future__ import annotations

import argparse
import json
import queue
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from psycopg import pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from raw.designs import DESIGNS, Design

UUID, TIMESTAMPTZ, INT8, UUID_ARRAY = 2950, 1184, 20, 2951
BINARY = pq.Format.BINARY
# Before everything: PostgreSQL's -infinity, and no seq.
BOTTOM = (struct.pack(">q", -(2**63)), struct.pack(">q", 0))
Floor = tuple[bytes, bytes]


class Connection:
    """A connection on which statements are prepared once and run often."""

    def __init__(self, url: str) -> None:
        self._libpq = pq.PGconn.connect(url.encode())
        if self._libpq.status != pq.ConnStatus.OK:
            raise RuntimeError(self._libpq.get_error_message())

    def prepare(self, name: str, statement: str, types: list[int]) -> None:
        self._checked(self._libpq.prepare(name.encode(), statement.encode(), types))

    def run(self, name: str, values: list[bytes]) -> pq.abc.PGresult:
        formats = [BINARY] * len(values)
        return self._checked(self._libpq.exec_prepared(name.encode(), values, formats, BINARY))

    def say(self, statement: str) -> pq.abc.PGresult:
        return self._checked(self._libpq.exec_(statement.encode()))

    def _checked(self, result: pq.abc.PGresult) -> pq.abc.PGresult:
        if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
            raise RuntimeError(result.get_error_message())
        return result


class Runner:
    """A design on its connections."""

    def __init__(self, url: str, design: Design, batch: int) -> None:
        self.design = design
        self.reader = Connection(url)
        self.settler = Connection(url) if design.ahead else self.reader
        self.reader.prepare("take", design.take.format(batch=batch), [TIMESTAMPTZ, INT8] if design.floor else [])
        types = [UUID_ARRAY] if design.by == "ids" else [TIMESTAMPTZ, INT8, TIMESTAMPTZ, INT8]
        self.settler.prepare("settle", design.settle, types)

    def drain(self, floor: Floor, end: Floor | None) -> int:
        return self._ahead(floor) if self.design.ahead else self._in_turn(floor, end)

    def _in_turn(self, floor: Floor, end: Floor | None) -> int:
        settled, design, connection = 0, self.design, self.reader
        while True:
            if design.together:
                connection.say("BEGIN")
            taken = connection.run("take", list(floor) if design.floor else [])
            rows = taken.ntuples
            if rows:
                last = place(taken, rows - 1)
                if end is not None and last >= end:
                    last, rows = end, rows_up_to(taken, end)
                settled += self._settle(taken, rows, floor, last)
                floor = last
            if design.together:
                connection.say("COMMIT")
            if rows == 0 or floor == end:
                return settled

    def _settle(self, taken: pq.abc.PGresult, rows: int, floor: Floor, last: Floor) -> int:
        values = [ids(taken, rows)] if self.design.by == "ids" else [*floor, *last]
        return self.settler.run("settle", values).command_tuples or 0

    def _ahead(self, floor: Floor) -> int:
        """libpq waits without Python's lock, so the two threads are two clients."""
        batches: queue.Queue[pq.abc.PGresult | None] = queue.Queue(4)

        def read() -> None:
            for taken in self._reads(floor):
                batches.put(taken)
            batches.put(None)

        reading = threading.Thread(target=read, daemon=True)
        reading.start()
        settled = 0
        while (taken := batches.get()) is not None:
            settled += self._settle(taken, taken.ntuples, floor, floor)
        return settled

    def _reads(self, floor: Floor) -> Iterator[pq.abc.PGresult]:
        while (taken := self.reader.run("take", list(floor))).ntuples:
            floor = place(taken, taken.ntuples - 1)
            yield taken


def place(taken: pq.abc.PGresult, row: int) -> Floor:
    """Where a row stands in the index, as the server wrote it; moments after 2000 compare as their bytes do."""
    return (taken.get_value(row, 1) or b"", taken.get_value(row, 2) or b"")


def rows_up_to(taken: pq.abc.PGresult, end: Floor) -> int:
    return sum(1 for row in range(taken.ntuples) if place(taken, row) <= end)


def ids(taken: pq.abc.PGresult, rows: int) -> bytes:
    """An array of UUIDs in PostgreSQL's binary format."""
    head = struct.pack(">iiiii", 1, 0, UUID, rows, 1)
    return head + b"".join(b"\x00\x00\x00\x10" + (taken.get_value(row, 0) or b"") for row in range(rows))


def part(url: str, which: str) -> tuple[Floor, Floor | None]:
    """The half of a process that must not meet the other one."""
    number, of = (int(word) for word in which.split("/"))
    if of == 1:
        return BOTTOM, None
    connection = Connection(url)
    connection.prepare(
        "middle",
        "SELECT id, next_attempt_at, seq FROM outbox_event ORDER BY next_attempt_at, seq"
        " OFFSET (SELECT count(*) / 2 FROM outbox_event) LIMIT 1",
        [],
    )
    middle = place(connection.run("middle", []), 0)
    return (BOTTOM, middle) if number == 0 else (middle, None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", required=True)
    parser.add_argument("--design", required=True, choices=DESIGNS)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--part", default="0/1")
    options = parser.parse_args()
    design = DESIGNS[options.design]
    runner = Runner(options.database, design, options.batch)
    floor, end = (BOTTOM, None) if design.shared else part(options.database, options.part)
    first, cpu = time.time(), time.process_time()
    settled = runner.drain(floor, end)
    report = {"first_at": first, "last_at": time.time(), "settled": settled, "cpu": time.process_time() - cpu}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
