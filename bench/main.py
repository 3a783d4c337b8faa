"""One run of the benchmark: the servers are started, the scenarios run one after another, the results are written.

A full run writes bench/RESULTS.md and bench/plots; --quick writes bench/.quick, --only bench/.partial, so that a file
with all figures of one run is never mixed with those of another.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
# In the order of the report.
SCENARIOS = ("drain", "latency", "emit", "slow", "backlog", "horizon", "steady", "wal", "mariadb", "brokers", "schemas")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one round and small counts: a few minutes")
    parser.add_argument("--only", help=f"scenarios, separated by commas: {', '.join(SCENARIOS)}")
    parser.add_argument("--out", type=Path, help="where to write RESULTS.md and plots")
    return parser.parse_args()


def chosen(only: str | None) -> list[str]:
    """The scenarios that are asked for and exist."""
    there = [name for name in SCENARIOS if (HERE / "scenarios" / f"{name}.py").exists()]
    if only is None:
        return there
    names = only.split(",")
    unknown = [name for name in names if name not in there]
    if unknown:
        raise SystemExit(f"no such scenario: {', '.join(unknown)}. There are: {', '.join(there)}")
    return [name for name in there if name in names]


def main() -> int:
    options = arguments()
    names = chosen(options.only)
    default = HERE / (".quick" if options.quick else ".partial" if options.only else "")
    from frame.bench import Bench
    from frame.report import Section, write

    # So that the servers are stopped.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(143))
    began = time.monotonic()
    out = options.out or default
    sections: list[Section] = []
    failed = False
    with Bench.start(quick=options.quick) as bench:
        about = bench.about()
        for name in names:
            scenario = importlib.import_module(f"scenarios.{name}")
            bench.log(f"== {name}: {scenario.TITLE}")
            started = time.monotonic()
            try:
                section = scenario.run(bench)
            except Exception as error:
                # The others' figures are worth an hour of waiting: a scenario that fails does not take them along.
                failed = True
                traceback.print_exc()
                section = Section(scenario.TITLE, f"**This scenario failed:** {type(error).__name__}: {error}")
            bench.figures.update(section.figures)
            section.took = time.monotonic() - started
            bench.log(f"== {name}: {section.took:.0f} s")
            sections.append(section)
            # After each: a run that is cut off has what it has.
            write(out, about, sections, quick=options.quick, took=time.monotonic() - began)
    print(f"written: {out / 'RESULTS.md'}, after {(time.monotonic() - began) / 60:.0f} minutes", file=sys.stderr)
    if bench.broken:
        print(f"failed: {', '.join(bench.broken)}", file=sys.stderr)
    return 1 if failed or bench.broken else 0


if __name__ == "__main__":
    sys.exit(main())
