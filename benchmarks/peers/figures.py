"""The measurements: kept as JSON, summed up as least, median and most."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One run of one side.

    Attributes:
        question, kind, keys, side: the question, the savepoint, and the side that answered.
        error: the reason for a missing or wrong answer; if empty, the other attributes are set.
        wall_s, cpu_s, peak_mib, read_bytes, read_calls: of the process, from outside. savepointdb maps files, which takes
            no calls: its bytes are those that the query reports.
        in_process_s: from opening the savepoint to the last row, with the process or cluster up.
        first_s, warm_s: of savepointdb, in a process that has answered nothing yet; with the savepoint open.
        limit_s: DuckDB over Parquet, for the same answer.
    """

    question: str
    kind: str
    keys: int
    side: str
    error: str = ""
    wall_s: float = 0
    cpu_s: float = 0
    peak_mib: float = 0
    read_bytes: int = 0
    read_calls: int = 0
    in_process_s: float | None = None
    first_s: float | None = None
    warm_s: float | None = None
    limit_s: float | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """Least, median and most of some runs."""

    least: float
    median: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread | None:
        """Return the spread of some values; None if there are none."""
        known = sorted(values)
        return cls(known[0], statistics.median(known), known[-1]) if known else None


@dataclass(slots=True, kw_only=True)
class Figures:
    """All runs, and the machine.

    Attributes:
        machine: for people: cores, memory, versions.
        bytes_of: (keys, kind) → size of the savepoint.
        runs: in the order in which they ran.
    """

    machine: str
    bytes_of: dict[tuple[int, str], int] = field(default_factory=dict)
    runs: list[Figure] = field(default_factory=list)

    def of(self, question: str, kind: str, keys: int, side: str) -> list[Figure]:
        """Return the runs with a right answer."""
        return [
            run
            for run in self.runs
            if (run.question, run.kind, run.keys, run.side) == (question, kind, keys, side) and not run.error
        ]

    def spread(self, measure: str, question: str, kind: str, keys: int, side: str) -> Spread | None:
        """Return least, median and most of an attribute of `Figure`; None if it was not measured."""
        values = [getattr(run, measure) for run in self.of(question, kind, keys, side)]
        return Spread.of(value for value in values if value is not None)

    def cases(self) -> Iterator[tuple[int, str, str]]:
        """Return number of keys, kind and question of all runs, each once, in their order."""
        yield from dict.fromkeys((run.keys, run.kind, run.question) for run in self.runs)

    def sides(self, question: str, kind: str, keys: int) -> Iterator[str]:
        """Return the sides of a case, in their order."""
        yield from dict.fromkeys(
            run.side for run in self.runs if (run.question, run.kind, run.keys) == (question, kind, keys)
        )

    def write(self, path: Path) -> None:
        """Write the figures to a file."""
        sizes = [[keys, kind, size] for (keys, kind), size in self.bytes_of.items()]
        record = {"machine": self.machine, "bytes": sizes, "runs": [asdict(run) for run in self.runs]}
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Figures:
        """Return the figures of a file of `write`."""
        record = json.loads(path.read_text(encoding="utf-8"))
        return cls(
            machine=record["machine"],
            bytes_of={(keys, kind): size for keys, kind, size in record["bytes"]},
            runs=[Figure(**run) for run in record["runs"]],
        )
