"""Rounds and what is made of them: everybody has a turn in each round, and the median of a contender's turns counts."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

Key = TypeVar("Key")


class DidNotRun(Exception):
    """A contender that could not be installed or does not do what is asked; the message says why."""


# What came of a contender that broke, beside what it says itself.
FAILURES = (DidNotRun, RuntimeError, subprocess.TimeoutExpired)


@dataclass
class Sample:
    """What the rounds gave; shown as the median and, where there are several, the least and the most."""

    values: list[float] = field(default_factory=list)
    reason: str = ""
    # It broke, where it should not have.
    broke: bool = False

    @property
    def median(self) -> float:
        return statistics.median(self.values) if self.values else 0.0

    @property
    def least(self) -> float:
        return min(self.values, default=0.0)

    @property
    def most(self) -> float:
        return max(self.values, default=0.0)

    def show(self, digits: int = 0) -> str:
        if not self.values:
            return f"**did not run:** {self.reason}" if self.reason else "–"
        shown = f"{self.median:,.{digits}f}"
        if len(self.values) > 1:
            shown += f" ({self.least:,.{digits}f}–{self.most:,.{digits}f})"
        return f"{shown}, then **failed:** {self.reason}" if self.reason else shown

    def __str__(self) -> str:
        return self.show()


def interleave(
    rounds: int, contenders: Mapping[Key, Callable[[], float]], log: Callable[[str], None]
) -> dict[Key, Sample]:
    """Each contender once per round. One that fails is not asked again, and does not take the others' figures along."""
    samples: dict[Key, Sample] = {key: Sample() for key in contenders}
    for number in range(rounds):
        for key, measure in contenders.items():
            if samples[key].reason:
                continue
            try:
                value = measure()
            except FAILURES as error:
                samples[key].broke = not isinstance(error, DidNotRun)
                samples[key].reason = (str(error).splitlines() or [type(error).__name__])[0]
                log(f"round {number + 1}: {key}: {error}")
                continue
            samples[key].values.append(value)
            log(f"round {number + 1}: {key}: {value:,.0f}")
    return samples
