"""procrastinate as a contender: makes its tables, and drains them with a task that does nothing.

python worker.py migrate URL
python worker.py drain URL COUNT     COUNT jobs are there; another process may take some of them
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import psycopg
from procrastinate import App, PsycopgConnector

CONCURRENCY = 30
# While jobs come in nobody asks the database whether some are left.
QUIET = 0.1
LEFT = "SELECT 1 FROM procrastinate_jobs WHERE status IN ('todo', 'doing') LIMIT 1"


class Tally:
    """What the task was called for."""

    def __init__(self) -> None:
        self.first = 0.0
        self.handled = 0

    def count(self) -> None:
        self.first = self.first or time.time()
        self.handled += 1


async def migrate(app: App) -> None:
    await app.schema_manager.apply_schema_async()


async def drain(app: App, url: str, count: int, tally: Tally) -> None:
    worker = asyncio.create_task(
        app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False, delete_jobs="never")
    )
    last = await completed(url, count, tally, worker)
    print(json.dumps({"settled": tally.handled, "first_at": tally.first or last, "last_at": last}), flush=True)
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)


async def completed(url: str, count: int, tally: Tally, worker: asyncio.Task[None]) -> float:
    """When the database has all of them as done."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        before = -1
        while not worker.done():
            if tally.handled < count and tally.handled != before:
                before = tally.handled
                await asyncio.sleep(QUIET)
                continue
            if await (await connection.execute(LEFT)).fetchone() is None:
                return time.time()
            # Another process has jobs to complete, too, and asking costs.
            await asyncio.sleep(0.05 if tally.handled < count else 0.01)
    raise SystemExit("the worker ended by itself")


async def main() -> None:
    command, url, *rest = sys.argv[1:]
    tally = Tally()
    app = App(connector=PsycopgConnector(conninfo=url, min_size=4, max_size=CONCURRENCY + 2))

    @app.task(name="order")
    async def order(order: int, filler: str) -> None:
        tally.count()

    async with app.open_async():
        if command == "migrate":
            await migrate(app)
        else:
            await drain(app, url, int(rest[0]), tally)


asyncio.run(main())
