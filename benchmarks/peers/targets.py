"""The targets of savepointdb on 2 million keys and four states, on two cores, and whether it reaches them.

The median must meet a target of time. Memory is the most that any run of any question took.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.peers.figures import Figures
from benchmarks.peers.questions import QUESTIONS
from benchmarks.peers.sides import OURS, PROCESS

KEYS = 2_000_000
CANONICAL, NATIVE = "hashmap-canonical", "rocksdb-native"
MOST_MIB = 400.0
# Between 2 and 10 million keys.
MOST_GROWTH = 1.2
_OF_PARQUET = 1.0


@dataclass(frozen=True, slots=True)
class Target:
    """A time to reach.

    Attributes:
        question, kind, side: of the case.
        measure: an attribute of `Figure`.
        how: its name for people.
        most_s: seconds at most; None for as long as DuckDB takes over Parquet.
    """

    question: str
    kind: str
    side: str
    measure: str
    how: str
    most_s: float | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target and the measurement; `found` is None without one."""

    what: str
    how: str
    found: float | None
    most: float
    unit: str

    @property
    def is_met(self) -> bool | None:
        """True if the target is met; None without a measurement."""
        return None if self.found is None else self.found <= self.most

    @property
    def text(self) -> str:
        """Return `met`, or by how much it is missed."""
        if self.found is None:
            return "not measured"
        if self.found <= self.most:
            return "met"
        return f"missed: {self.found / self.most:.1f} times" if self.most else "missed"


def verdicts(figures: Figures, keys: int = KEYS) -> Iterator[Verdict]:
    """Return the verdicts on all targets."""
    for target in TARGETS:
        spread = figures.spread(target.measure, target.question, target.kind, keys, target.side)
        most = target.most_s
        if most is None:
            limit = figures.spread("limit_s", target.question, target.kind, keys, target.side)
            most = 0.0 if limit is None else limit.median * _OF_PARQUET
        kind = target.kind.partition("-")[2]
        what = f"{QUESTIONS[target.question].title}, {kind}"
        yield Verdict(what, target.how, None if spread is None else spread.median, most, "s")
    yield from _memory(figures, keys)


def _memory(figures: Figures, keys: int) -> Iterator[Verdict]:
    ours = [run for run in figures.runs if run.side in (OURS, PROCESS) and not run.error]
    peaks = [run.peak_mib for run in ours if run.keys == keys]
    yield Verdict("peak memory", "the most of any run", max(peaks, default=None), MOST_MIB, "MiB")
    for kind in ("rocksdb-canonical", NATIVE):
        sizes = sorted(
            {run.keys for run in ours if (run.kind, run.question) == (kind, "count") and run.keys >= keys}
        )
        few, many = (
            figures.spread("peak_mib", "count", kind, size, OURS)
            for size in (keys, sizes[-1] if sizes else keys)
        )
        grown = many.median / few.median if few and many and len(sizes) > 1 else None
        what = f"peak memory, {kind.partition('-')[2]}, of the most keys beside {keys:,}"
        yield Verdict(what, "ratio", grown, MOST_GROWTH, "times")


_OPENED, _WARM, _WHOLE = "in process, savepoint opened", "in process, warm", "whole process"

TARGETS = (
    Target("count", CANONICAL, OURS, "in_process_s", _OPENED, 0.15),
    Target("count", CANONICAL, PROCESS, "wall_s", _WHOLE, 0.9),
    Target("count", NATIVE, OURS, "in_process_s", _OPENED, 0.5),
    Target("count", NATIVE, PROCESS, "wall_s", _WHOLE, 1.5),
    Target("key", CANONICAL, OURS, "in_process_s", _OPENED, 0.010),
    Target("key", CANONICAL, OURS, "warm_s", _WARM, 0.005),
    Target("key", NATIVE, OURS, "in_process_s", _OPENED, 0.030),
    Target("key", NATIVE, OURS, "warm_s", _WARM, 0.005),
    Target("parquet", CANONICAL, OURS, "in_process_s", _OPENED, 4.0),
    Target("parquet", NATIVE, OURS, "in_process_s", _OPENED, 6.0),
    Target("group", CANONICAL, OURS, "in_process_s", _OPENED, 0.2),
    Target("group", NATIVE, OURS, "in_process_s", _OPENED, 0.6),
    Target("days", CANONICAL, OURS, "in_process_s", _OPENED, 0.2),
    Target("days", NATIVE, OURS, "in_process_s", _OPENED, 0.6),
    Target("metadata", CANONICAL, OURS, "in_process_s", _OPENED, 0.020),
    Target("metadata", CANONICAL, PROCESS, "wall_s", _WHOLE, 0.7),
    Target("metadata", NATIVE, OURS, "in_process_s", _OPENED, 0.020),
    Target("metadata", NATIVE, PROCESS, "wall_s", _WHOLE, 0.7),
    Target("again", CANONICAL, OURS, "warm_s", "warm; at most DuckDB over Parquet", None),
    Target("again", NATIVE, OURS, "warm_s", "warm; at most DuckDB over Parquet", None),
)
