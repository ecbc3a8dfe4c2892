"""What was measured: kept as JSON, summed up as least, median and most."""

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
        question, kind, keys, side: what was asked, of which savepoint, who answered.
        error: why there is no answer, or that it is wrong; empty if all is well, and then the rest holds.
        wall_s, cpu_s, peak_mib, read_bytes, read_calls: of the process, from outside. savepointdb maps files, which takes
            no calls: its bytes are those that the query says it read.
        in_process_s: from opening the savepoint to the last row, in a process, or with a cluster, that is up.
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
        """The spread of these; None if there are none."""
        known = sorted(values)
        return cls(known[0], statistics.median(known), known[-1]) if known else None


@dataclass(slots=True, kw_only=True)
class Figures:
    """All runs, and where they ran.

    Attributes:
        machine: for people: cores, memory, versions.
        bytes_of: (keys, kind) → size of the savepoint.
        runs: in the order in which they ran.
    """

    machine: str
    bytes_of: dict[tuple[int, str], int] = field(default_factory=dict)
    runs: list[Figure] = field(default_factory=list)

    def of(self, question: str, kind: str, keys: int, side: str) -> list[Figure]:
        """The runs with a right answer."""
        return [
            run
            for run in self.runs
            if (run.question, run.kind, run.keys, run.side) == (question, kind, keys, side) and not run.error
        ]

    def spread(self, measure: str, question: str, kind: str, keys: int, side: str) -> Spread | None:
        """Least, median and most of an attribute of `Figure`; None if it was not measured."""
        values = [getattr(run, measure) for run in self.of(question, kind, keys, side)]
        return Spread.of(value for value in values if value is not None)

    def cases(self) -> Iterator[tuple[int, str, str]]:
        """Number of keys, kind and question of all runs, each once, in their order."""
        yield from dict.fromkeys((run.keys, run.kind, run.question) for run in self.runs)

    def sides(self, question: str, kind: str, keys: int) -> Iterator[str]:
        """The sides of a case, in their order."""
        yield from dict.fromkeys(
            run.side for run in self.runs if (run.question, run.kind, run.keys) == (question, kind, keys)
        )

    def write(self, path: Path) -> None:
        """Keep them."""
        sizes = [[keys, kind, size] for (keys, kind), size in self.bytes_of.items()]
        record = {"machine": self.machine, "bytes": sizes, "runs": [asdict(run) for run in self.runs]}
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Figures:
        """What `write` kept."""
        record = json.loads(path.read_text(encoding="utf-8"))
        return cls(
            machine=record["machine"],
            bytes_of={(keys, kind): size for keys, kind, size in record["bytes"]},
            runs=[Figure(**run) for run in record["runs"]],
        )
