"""The write-ahead log as the outbox, beside the table, on one server whose log can be decoded."""

from __future__ import annotations

from frame.bench import Bench
from frame.report import Section
from scenarios import wal_drain, wal_emit, wal_flow

TITLE = "The write-ahead log as the outbox"
TEXT = """
`[source] kind = "wal"`: repeatable events are written into the log instead of the table, and a relay reads them
from there. PostgreSQL was restarted with `wal_level = logical` for this section, for both ways. Nothing else
changes: payloads of about 490 B, `synchronous_commit` on, delivered events are deleted (where it says *keep*, they
are kept). While events are written and no relay runs, the benchmark holds the log's gate open, as a relay does.
"""


def run(bench: Bench) -> Section:
    section = Section(TITLE, TEXT)
    with bench.decodable():
        for part in (wal_emit.server_time, wal_emit.commits, wal_drain.drains, wal_flow.steadily, wal_flow.idle):
            part(bench, section)
    return section
